"""The state machine of posts."""

from tools.state_machines.model import StateMachine

TIMES = "new.created_at, new.updated_at, new.release_time, new.released_at, new.lease_expires_at, new.processing_since"
LEASE_ENDS = "new.lease_expires_at := least(new.lease_expires_at, new.processing_since + interval '10 minutes');"
EVERY_CHANGE = ("new.version := old.version + 1;", "new.updated_at := duly.clock();")

POST_MACHINE = StateMachine(
    name="post",
    table=("posts", "posts"),
    state="status",
    initial=("PENDING", "RELEASED"),
    edges={"PENDING": ("PROCESSING",), "PROCESSING": ("RELEASED", "PENDING")},
    immutable=("author_id", "created_at", "release_time", "daily_key", "request_id", "image_url", "legacy"),
    transition_if="new.caption is distinct from old.caption",
    actor="case when status = 'PROCESSING' then lease_owner when status = 'RELEASED' then settled_by end",
    detail=(
        "jsonb_strip_nulls(jsonb_build_object('version', version, 'attempts', nullif(process_attempts, 0),"
        " 'aiError', ai_error, 'legacy', case when legacy is not null then true end))"
    ),
    rules={
        "ck_posts__born": "new.revision > 1 or new.status = 'PENDING' or new.legacy is not null",
        "ck_posts__v2": (
            "new.legacy is not null or num_nonnulls(new.release_time, new.daily_key, new.request_id, new.image_url) = 4"
        ),
        "ck_posts__daily_key": (
            "new.revision > 1 or new.legacy is not null"
            " or new.daily_key = posts.daily_key(new.author_id, new.created_at)"
        ),
        "ck_posts__due": "new.status = 'RELEASED' or new.release_time is not null",
        "ck_posts__caption": "char_length(new.caption) <= 2200",
        "ck_posts__image_url": "char_length(new.image_url) between 1 and 2048",
        "ck_posts__lease": (
            "num_nonnulls(new.lease_owner, new.lease_expires_at, new.processing_since)"
            " = case when new.status = 'PROCESSING' then 3 else 0 end"
        ),
        "ck_posts__owners": "char_length(new.lease_owner) between 1 and 300 and char_length(new.settled_by) <= 300",
        "ck_posts__process_attempts": "new.process_attempts >= 0",
        "ck_posts__ai": (
            "new.ai is null"
            " or (new.status = 'RELEASED' and jsonb_typeof(new.ai) = 'object' and pg_column_size(new.ai) <= 65536)"
        ),
        "ck_posts__ai_error": (
            "new.ai_error is null or (new.status = 'RELEASED' and new.ai_error ~ '^[A-Z][A-Z0-9_]{0,63}$')"
        ),
        "ck_posts__released_at": (
            "case when new.legacy is null then (new.status = 'RELEASED') = (new.released_at is not null)"
            " else new.status = 'RELEASED' or new.released_at is null end"
        ),
        "ck_posts__legacy": "jsonb_typeof(new.legacy) = 'object' and pg_column_size(new.legacy) <= 1048576",
        "ck_posts__years_2000_to_2200": (
            f"date_part('epoch', least({TIMES})) >= 946684800 and date_part('epoch', greatest({TIMES})) < 7258118400"
        ),
    },
    at_insert=("new.version := 1;",),
    at_other_update=(
        "if old.status = 'RELEASED' or new.lease_owner is distinct from old.lease_owner then",
        "    raise exception 'post % is % and stays as it is', old.id, old.status using errcode = 'DU001';",
        "end if;",
        *EVERY_CHANGE,
        "new.processing_since := old.processing_since;",
        LEASE_ENDS,
    ),
    at_transition=(
        "if new.caption is distinct from old.caption and (old.status, new.status) <> ('PENDING', 'PENDING') then",
        "    raise exception 'post % is % and its caption stays as it is', old.id, old.status using errcode = 'DU001';",
        "elsif old.status = 'PENDING' and new.status = 'PROCESSING' and old.release_time > duly.clock() then",
        "    raise exception 'post % is not released before %', old.id, old.release_time using errcode = 'DU001';",
        "elsif old.status = 'PROCESSING' and new.status = 'PENDING' and old.lease_expires_at >= duly.clock() then",
        "    raise exception 'post % is held until %', old.id, old.lease_expires_at using errcode = 'DU001';",
        "end if;",
        *EVERY_CHANGE,
        "new.processing_since := case when new.status = 'PROCESSING' then new.updated_at end;",
        "new.released_at := case when new.status = 'RELEASED' then greatest(new.updated_at, old.processing_since) end;",
        LEASE_ENDS,
    ),
)
