-- Guard and timeline of post: rendered from the state machine, and compared with it by a test.

create or replace function "posts"."posts_guard"() returns trigger
    language plpgsql
    as $guard$
declare
    broken_rule text;
begin
    if tg_op = 'INSERT' then
        if not (new."status"::text = any (array['PENDING', 'RELEASED'])) then
            raise exception '% cannot begin as %', 'post', new."status" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.transition_from := null;
        new.version := 1;
    elsif new."id" is distinct from old."id" then
        raise exception 'the primary key of % % cannot change', 'post', old."id"
            using errcode = 'DU001';
    elsif (
        new."author_id", new."created_at", new."release_time", new."daily_key", new."request_id", new."image_url",
            new."legacy"
    ) is distinct from (
        old."author_id", old."created_at", old."release_time", old."daily_key", old."request_id", old."image_url",
            old."legacy"
    ) then
        raise exception 'of % % these stay as they are: %', 'post', old."id",
            'author_id, created_at, release_time, daily_key, request_id, image_url, legacy'
            using errcode = 'DU001';
    elsif new."status" is not distinct from old."status" and not (
        (new.caption is distinct from old.caption)
    ) then
        new.revision := old.revision;
        new.transition_from := null;
        if old.status = 'RELEASED' or new.lease_owner is distinct from old.lease_owner then
            raise exception 'post % is % and stays as it is', old.id, old.status using errcode = 'DU001';
        end if;
        new.version := old.version + 1;
        new.updated_at := duly.clock();
        new.processing_since := old.processing_since;
        new.lease_expires_at := least(new.lease_expires_at, new.processing_since + interval '10 minutes');
    elsif new."status" is distinct from old."status" and not (case old."status"::text
        when 'PENDING' then new."status"::text = any (array['PROCESSING'])
        when 'PROCESSING' then new."status"::text = any (array['RELEASED', 'PENDING'])
        else false
    end) then
        raise exception '% % cannot go from % to %', 'post', old."id",
            old."status", new."status" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.transition_from := old."status"::text;
        if new.caption is distinct from old.caption and (old.status, new.status) <> ('PENDING', 'PENDING') then
            raise exception 'post % is % and its caption stays as it is', old.id, old.status using errcode = 'DU001';
        elsif old.status = 'PENDING' and new.status = 'PROCESSING' and old.release_time > duly.clock() then
            raise exception 'post % is not released before %', old.id, old.release_time using errcode = 'DU001';
        elsif old.status = 'PROCESSING' and new.status = 'PENDING' and old.lease_expires_at >= duly.clock() then
            raise exception 'post % is held until %', old.id, old.lease_expires_at using errcode = 'DU001';
        end if;
        new.version := old.version + 1;
        new.updated_at := duly.clock();
        new.processing_since := case when new.status = 'PROCESSING' then new.updated_at end;
        new.released_at := case when new.status = 'RELEASED' then greatest(new.updated_at, old.processing_since) end;
        new.lease_expires_at := least(new.lease_expires_at, new.processing_since + interval '10 minutes');
    end if;
    broken_rule := case
        when (new.revision > 1 or new.status = 'PENDING' or new.legacy is not null) is false then 'ck_posts__born'
        when (
            new.legacy is not null or num_nonnulls(new.release_time, new.daily_key, new.request_id, new.image_url) = 4
        ) is false then 'ck_posts__v2'
        when (
            new.revision > 1 or new.legacy is not null or new.daily_key = posts.daily_key(new.author_id, new.created_at)
        ) is false then 'ck_posts__daily_key'
        when (new.status = 'RELEASED' or new.release_time is not null) is false then 'ck_posts__due'
        when (char_length(new.caption) <= 2200) is false then 'ck_posts__caption'
        when (char_length(new.image_url) between 1 and 2048) is false then 'ck_posts__image_url'
        when (
            num_nonnulls(new.lease_owner, new.lease_expires_at, new.processing_since) = case
                when new.status = 'PROCESSING' then 3 else 0 end
        ) is false then 'ck_posts__lease'
        when (
            char_length(new.lease_owner) between 1 and 300 and char_length(new.settled_by) <= 300
        ) is false then 'ck_posts__owners'
        when (new.process_attempts >= 0) is false then 'ck_posts__process_attempts'
        when (
            new.ai is null or (new.status = 'RELEASED' and jsonb_typeof(new.ai) = 'object'
                and pg_column_size(new.ai) <= 65536)
        ) is false then 'ck_posts__ai'
        when (
            new.ai_error is null or (new.status = 'RELEASED' and new.ai_error ~ '^[A-Z][A-Z0-9_]{0,63}$')
        ) is false then 'ck_posts__ai_error'
        when (
            case when new.legacy is null then (new.status = 'RELEASED') = (new.released_at is not null)
                else new.status = 'RELEASED' or new.released_at is null end
        ) is false then 'ck_posts__released_at'
        when (
            jsonb_typeof(new.legacy) = 'object' and pg_column_size(new.legacy) <= 1048576
        ) is false then 'ck_posts__legacy'
        when (
            date_part('epoch', least(new.created_at, new.updated_at, new.release_time, new.released_at,
                new.lease_expires_at, new.processing_since)) >= 946684800 and date_part('epoch',
                greatest(new.created_at, new.updated_at, new.release_time, new.released_at, new.lease_expires_at,
                new.processing_since)) < 7258118400
        ) is false then 'ck_posts__years_2000_to_2200'
    end;
    if broken_rule is not null then
        raise exception '% % breaks the rule %', 'post', new."id", broken_rule
            using errcode = 'check_violation', constraint = broken_rule;
    end if;
    return new;
end
$guard$;

create or replace trigger "posts_guard"
    before insert or update on "posts"."posts"
    for each row execute function "posts"."posts_guard"();

create or replace function "posts"."posts_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, ts, prev_status, next_status, actor, detail_json)
    select
        'post', "id"::text, revision, duly.clock(), transition_from, "status"::text, case
            when status = 'PROCESSING' then lease_owner when status = 'RELEASED' then settled_by end,
            jsonb_strip_nulls(jsonb_build_object('version', version, 'attempts', nullif(process_attempts, 0), 'aiError',
            ai_error, 'legacy', case when legacy is not null then true end))
    from new_rows
    where transition_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create or replace trigger "posts_timeline_insert"
    after insert on "posts"."posts"
    referencing new table as new_rows
    for each statement execute function "posts"."posts_timeline"();

create or replace trigger "posts_timeline_update"
    after update on "posts"."posts"
    referencing new table as new_rows
    for each statement execute function "posts"."posts_timeline"();
