-- Orgs, people, keys and calendars.

-- name: create_org
-- The unique name decides who made it; nothing returned means it was there.
insert into duly.orgs (name) values (%(name)s)
on conflict (name) do nothing
returning *;

-- name: find_org
-- By name or by id, whichever was given.
select * from duly.orgs where name = %(name)s or id::text = %(name)s
order by (name = %(name)s) desc
limit 1;

-- name: list_orgs
-- Oldest first, from a place onwards.
select * from duly.orgs where (created_at, id) > (%(after_at)s, %(after_id)s)
order by created_at, id
limit %(limit)s;

-- name: create_user
-- The unique uid decides who made it; nothing returned means it was there.
insert into "user".users (uid, telegram_id, zone, language, currency)
values (%(uid)s, %(telegram_id)s, %(zone)s, %(language)s, %(currency)s)
on conflict (uid) do nothing
returning *;

-- name: find_user
-- By uid.
select * from "user".users where uid = %(uid)s;

-- name: change_user
-- What is not given stays; nothing returned means that there is nobody of this uid.
update "user".users
set telegram_id = coalesce(%(telegram_id)s::bigint, telegram_id),
    zone = coalesce(%(zone)s::text, zone),
    language = coalesce(%(language)s::text, language),
    currency = coalesce(%(currency)s::text, currency)
where uid = %(uid)s
returning *;

-- name: find_by_telegram
-- By Telegram id.
select * from "user".users where telegram_id = %(telegram_id)s;

-- name: meet
-- Who writes to the bot for the first time becomes a person; false when they are one.
select "user".meet_telegram(%(telegram_id)s, %(language)s);

-- name: link
-- Bind a Telegram id to somebody who has none; false when they have another, or are not there.
select "user".link_telegram(%(user_id)s, %(telegram_id)s);

-- name: unlink
-- The person has no Telegram id any more; the days that are kept under it stay there.
update "user".users set telegram_id = null where uid = %(uid)s returning *;

-- name: list_users
-- In the order they came, from a place onwards.
select * from "user".users where id > %(after_id)s
order by id
limit %(limit)s;

-- name: create_calendar
-- One address a person: a new one takes the place of the old one, which opens nothing any more. Only its hash goes in.
insert into "user".calendars (user_id, token_sha256) values (%(user_id)s, %(token_sha256)s)
on conflict (user_id) do update set token_sha256 = excluded.token_sha256, created_at = duly.clock();

-- name: revoke_calendar
-- An address that is gone opens nothing.
delete from "user".calendars where user_id = %(user_id)s;

-- name: find_calendar
-- Whose calendar an address opens, by the hash of its token.
select u.*
from "user".calendars as c
join "user".users as u on u.id = c.user_id
where c.token_sha256 = %(token_sha256)s;

-- name: create_key
-- Only the hash goes in; an expiry is counted from the database's clock.
insert into duly.api_keys (name, prefix, secret_sha256, scopes, org_id, user_id, expires_at)
values (
    %(name)s, %(prefix)s, %(secret_sha256)s, %(scopes)s, %(org_id)s, %(user_id)s,
    duly.clock() + make_interval(secs => %(lifetime_seconds)s)
)
returning id, name, prefix, scopes, org_id, user_id, created_at, expires_at, revoked_at,
    (select u.uid from "user".users as u where u.id = user_id) as uid;

-- name: list_keys
-- Newest last, revoked and expired ones too, from a place onwards.
select id, name, prefix, scopes, org_id, user_id, created_at, expires_at, revoked_at,
    (select u.uid from "user".users as u where u.id = user_id) as uid
from duly.api_keys where (created_at, id) > (%(after_at)s, %(after_id)s)
order by created_at, id
limit %(limit)s;

-- name: find_live_key
-- A key opens doors only until it is revoked or expires, by the database's clock.
select id, name, prefix, scopes, org_id, user_id, created_at, expires_at, revoked_at, secret_sha256,
    (select u.uid from "user".users as u where u.id = user_id) as uid
from duly.api_keys
where prefix = %(prefix)s and revoked_at is null and (expires_at is null or expires_at > duly.clock());

-- name: revoke_keys
-- Once revoked a key stays so: the first time is kept. By prefix, org or person, whichever was given.
update duly.api_keys set revoked_at = duly.clock()
where revoked_at is null
    and (prefix = %(prefix)s or org_id = %(org_id)s or user_id = %(user_id)s)
returning id, name, prefix, scopes, org_id, user_id, created_at, expires_at, revoked_at,
    (select u.uid from "user".users as u where u.id = user_id) as uid;

-- name: find_key
-- Whatever its state, by prefix.
select id, name, prefix, scopes, org_id, user_id, created_at, expires_at, revoked_at,
    (select u.uid from "user".users as u where u.id = user_id) as uid
from duly.api_keys where prefix = %(prefix)s;

-- name: has_keys
-- Was a key ever made? A revoked one still says that this door has a lock.
select exists (select from duly.api_keys);

-- name: set_quiet
-- In these hours of their day nobody reminds them; nothing given means at any hour.
update "user".users set quiet_from = %(begins)s::time, quiet_until = %(ends)s::time
where uid = %(uid)s
returning *;

-- name: put_webhook
-- One address a person; a new one takes the place of the old one.
insert into "user".webhooks (user_id, url, secret) values (%(user_id)s, %(url)s, %(secret)s)
on conflict (user_id) do update set url = excluded.url, secret = excluded.secret;

-- name: drop_webhook
-- Messages to this person go nowhere by webhook any more.
delete from "user".webhooks where user_id = %(user_id)s;

-- name: put_apprise
-- One address a person; a new one takes the place of the old one.
insert into "user".apprise_addresses (user_id, url) values (%(user_id)s, %(url)s)
on conflict (user_id) do update set url = excluded.url;

-- name: drop_apprise
-- Messages to this person go nowhere by apprise any more.
delete from "user".apprise_addresses where user_id = %(user_id)s;

-- name: list_services
-- The services of some people, never what opens them.
select user_id, service from "user".apprise_addresses where user_id = any (%(user_ids)s::bigint[]);

-- name: list_webhooks
-- The addresses of some people, never the secrets.
select user_id, url from "user".webhooks where user_id = any (%(user_ids)s::bigint[]);
