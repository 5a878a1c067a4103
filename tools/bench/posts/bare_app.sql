-- The one table of the barest application.

-- name: make_table
-- What a request says, and no rule about it.
create table if not exists public.intents (
    id uuid primary key default gen_random_uuid(),
    image_path text not null,
    caption text not null,
    request_id uuid not null,
    created_at timestamptz not null default now()
);

-- name: create_intent
-- A row, whatever was there.
insert into public.intents (image_path, caption, request_id) values (%(image_path)s, %(caption)s, %(request_id)s)
returning id, created_at + interval '6 hours' as release_time;
