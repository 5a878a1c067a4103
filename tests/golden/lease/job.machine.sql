create function "ledger"."job_guard"() returns trigger
    language plpgsql
    as $guard$
begin
    if tg_op = 'INSERT' then
        if not (new."status"::text = any (array['queued'])) then
            raise exception '% cannot begin as %', 'job', new."status" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.moved_from := null;
        return new;
    end if;
    if new."id" is distinct from old."id" then
        raise exception 'the key of % % cannot change', 'job', old."id" using errcode = 'DU001';
    end if;
    if new."status" is distinct from old."status" then
        if not (case old."status"::text when 'queued' then new."status"::text = any (array['running', 'canceled']) when 'running' then new."status"::text = any (array['succeeded', 'failed', 'canceled', 'queued']) when 'failed' then new."status"::text = any (array['queued', 'dead_letter']) when 'dead_letter' then new."status"::text = any (array['queued']) else false end) then
            raise exception '% % cannot go from % to %', 'job', old."id", old."status", new."status" using errcode = 'DU001';
        end if;
    elsif not ((old."status"::text = 'running' and new."lease_owner" is distinct from old."lease_owner") or (new.progressed_at is distinct from old.progressed_at or (old.cancel_requested_at is null and new.cancel_requested_at is not null))) then
        new.revision := old.revision;
        new.moved_from := null;
        new.said := null;
        new.updated_at := duly.clock();
        return new;
    end if;
    new.revision := old.revision + 1;
    new.moved_from := old."status"::text;
    if new.said is not distinct from old.said then
        new.said := null;
    end if;
    new.updated_at := duly.clock();
    new.attempt := greatest(new.starts - 1, 0);
    new.started_at := case when new.status = 'running' then coalesce(old.started_at, new.updated_at) else old.started_at end;
    if new.status in ('succeeded', 'canceled', 'dead_letter') then
        new.finished_at := new.updated_at;
        new.retain_until := new.updated_at + new.retain_for;
    else
        new.finished_at := null;
        new.retain_until := null;
    end if;
    return new;
end
$guard$;

create trigger "job_guard" before insert or update on "ledger"."job"
    for each row execute function "ledger"."job_guard"();

create function "ledger"."job_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into ledger.job_event (id, job_id, org_id, seq, prev_status, next_status, detail_json)
    select ledger.new_id(), "id", org_id, revision, moved_from, "status"::text, case when said is null and status = 'running' then jsonb_build_object('actor', lease_owner, 'start', starts) else said end
    from moved
    where moved_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create trigger "job_timeline_insert" after insert on "ledger"."job"
    referencing new table as moved
    for each statement execute function "ledger"."job_timeline"();

create trigger "job_timeline_update" after update on "ledger"."job"
    referencing new table as moved
    for each statement execute function "ledger"."job_timeline"();
