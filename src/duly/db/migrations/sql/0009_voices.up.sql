-- Other voices: where else a person is reached, what signs the links they answer by, and which promises are broken.

-- Where a person's messages go besides ---------------------------------------------------------------------------------

create table "user".apprise_addresses (
    user_id bigint not null,
    url text not null,
    service text not null generated always as (split_part(url, '://', 1)) stored,
    created_at timestamptz not null default duly.clock(),
    updated_at timestamptz not null default duly.clock(),
    constraint pk_apprise_addresses primary key (user_id),
    constraint fk_apprise_addresses_users_user_id foreign key (user_id) references "user".users (id) on delete cascade,
    constraint ck_apprise_addresses__url check (url ~ '^[a-z][a-z0-9_+.-]{0,31}://.' and char_length(url) <= 2048)
);
comment on table "user".apprise_addresses is
    'Where messages by apprise go. The address holds passwords: only who sends may read it, everybody else its service.';
create trigger apprise_addresses_touch before update on "user".apprise_addresses
    for each row execute function duly.touch();

-- What signs links -----------------------------------------------------------------------------------------------------

create table duly.link_keys (
    id bigint not null generated always as identity,
    secret bytea not null default sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())),
    created_at timestamptz not null default duly.clock(),
    constraint pk_link_keys primary key (id),
    constraint ck_link_keys__secret check (octet_length(secret) between 32 and 64)
);
comment on table duly.link_keys is 'What signs the links in messages: the newest signs, every one that is here is honoured.';
insert into duly.link_keys default values;

-- Which promises are broken --------------------------------------------------------------------------------------------

create table posts.objectives (
    name text not null,
    looked_at timestamptz not null default '-infinity',
    breached_at timestamptz,
    breaches bigint not null default 0,
    constraint pk_objectives primary key (name),
    constraint ck_objectives__name check (name ~ '^[a-z][a-z0-9_]{0,31}$'),
    constraint ck_objectives__breaches check (breaches >= case when breached_at is null then 0 else 1 end)
);
comment on table posts.objectives is
    'One row a promise: whoever holds it looks how it stands; a breach begins here, once, and is told under its number.';
comment on column posts.objectives.breached_at is 'Since when it is broken; null while it is kept.';
comment on column posts.objectives.breaches is 'How often it was broken so far.';
insert into posts.objectives (name) values ('intents'), ('lag'), ('stuck');

-- Who may do what ------------------------------------------------------------------------------------------------------

grant select on "user".apprise_addresses to {worker};
grant select (user_id, service, created_at, updated_at) on "user".apprise_addresses to {api}, {readonly};
grant select on duly.link_keys to {worker}, {api};
grant select on posts.objectives to {worker}, {api}, {readonly};
grant update (looked_at, breached_at, breaches) on posts.objectives to {worker};
