-- Orgs, users, API keys and calendars.

-- name: create_org
-- The unique name decides who created it; no row returned means that it existed.
insert into duly.orgs (name) values (%(name)s)
on conflict (name) do nothing
returning *;

-- name: find_org
-- By name or by id, whichever was given.
select * from duly.orgs where name = %(name)s or id::text = %(name)s
order by (name = %(name)s) desc
limit 1;

-- name: list_orgs
-- A page after a cursor, the oldest first.
select * from duly.orgs where (created_at, id) > (%(after_at)s, %(after_id)s)
order by created_at, id
limit %(limit)s;

-- name: create_user
-- The unique uid decides who created it; no row returned means that it existed.
insert into "user".users (uid, telegram_id, zone, language, currency)
values (%(uid)s, %(telegram_id)s, %(zone)s, %(language)s, %(currency)s)
on conflict (uid) do nothing
returning *;

-- name: find_user
-- By uid.
select * from "user".users where uid = %(uid)s;

-- name: change_user
-- A null parameter leaves its column unchanged; no row returned means that the uid is unknown. A changed zone makes the
-- scheduler plan again, by its trigger users_follow_zone.
update "user".users
set telegram_id = coalesce(%(telegram_id)s::bigint, telegram_id),
    zone = coalesce(%(zone)s::text, zone),
    language = coalesce(%(language)s::text, language),
    currency = coalesce(%(currency)s::text, currency)
where uid = %(uid)s
returning *;

-- name: find_user_by_telegram
-- By Telegram id.
select * from "user".users where telegram_id = %(telegram_id)s;

-- name: create_telegram_user
-- Create a user for a Telegram id; false when it has one.
select "user".meet_telegram(%(telegram_id)s, %(language)s);

-- name: link_telegram
-- Link a Telegram id to a user who has none; false when the user has another one or does not exist.
select "user".link_telegram(%(user_id)s, %(telegram_id)s);

-- name: unlink_telegram
-- Remove the Telegram id of a user; days stored under that id are kept.
update "user".users set telegram_id = null where uid = %(uid)s returning *;

-- name: list_users
-- A page after a cursor, in the order of their ids.
select * from "user".users where id > %(after_id)s
order by id
limit %(limit)s;

-- name: create_calendar
-- One token per user: a new one replaces the old one, which stops working. Only the hash is stored.
insert into "user".calendars (user_id, token_sha256) values (%(user_id)s, %(token_sha256)s)
on conflict (user_id) do update set token_sha256 = excluded.token_sha256, created_at = duly.clock();

-- name: revoke_calendar
-- Delete the token; the feed is no longer readable.
delete from "user".calendars where user_id = %(user_id)s;

-- name: find_calendar
-- The owner of a calendar, by the hash of its token.
select u.*
from "user".calendars as c
join "user".users as u on u.id = c.user_id
where c.token_sha256 = %(token_sha256)s;

-- name: create_key
-- Only the hash is stored; the lifetime starts at the database's clock.
insert into duly.api_keys (name, prefix, secret_sha256, scopes, org_id, user_id, expires_at)
values (
    %(name)s, %(prefix)s, %(secret_sha256)s, %(scopes)s, %(org_id)s, %(user_id)s,
    duly.clock() + make_interval(secs => %(lifetime_seconds)s)
)
returning id, name, prefix, scopes, org_id, user_id, created_at, expires_at, revoked_at,
    (select u.uid from "user".users as u where u.id = user_id) as uid;

-- name: list_keys
-- A page after a cursor, the newest last, including revoked and expired keys.
select id, name, prefix, scopes, org_id, user_id, created_at, expires_at, revoked_at,
    (select u.uid from "user".users as u where u.id = user_id) as uid
from duly.api_keys where (created_at, id) > (%(after_at)s, %(after_id)s)
order by created_at, id
limit %(limit)s;

-- name: find_live_key
-- A key is valid until it is revoked or expires, by the database's clock.
select id, name, prefix, scopes, org_id, user_id, created_at, expires_at, revoked_at, secret_sha256,
    (select u.uid from "user".users as u where u.id = user_id) as uid
from duly.api_keys
where prefix = %(prefix)s and revoked_at is null and (expires_at is null or expires_at > duly.clock());

-- name: revoke_keys
-- Revoke by prefix, org or user, whichever is given; a key that is already revoked keeps its revoked_at.
update duly.api_keys set revoked_at = duly.clock()
where revoked_at is null
    and (prefix = %(prefix)s or org_id = %(org_id)s or user_id = %(user_id)s)
returning id, name, prefix, scopes, org_id, user_id, created_at, expires_at, revoked_at,
    (select u.uid from "user".users as u where u.id = user_id) as uid;

-- name: find_key
-- By prefix, valid or not.
select id, name, prefix, scopes, org_id, user_id, created_at, expires_at, revoked_at,
    (select u.uid from "user".users as u where u.id = user_id) as uid
from duly.api_keys where prefix = %(prefix)s;

-- name: has_keys
-- Was a key ever created? A revoked one counts: authentication stays required.
select exists (select from duly.api_keys);

-- name: set_quiet_hours
-- Send no reminders in these hours of the user's day; null removes the quiet hours.
update "user".users set quiet_from = %(start)s::time, quiet_until = %(end)s::time
where uid = %(uid)s
returning *;

-- name: put_webhook
-- One address per user; a new one replaces the old one.
insert into "user".webhooks (user_id, url, secret) values (%(user_id)s, %(url)s, %(secret)s)
on conflict (user_id) do update set url = excluded.url, secret = excluded.secret;

-- name: drop_webhook
-- Remove the webhook of a user.
delete from "user".webhooks where user_id = %(user_id)s;

-- name: put_apprise
-- One address per user; a new one replaces the old one.
insert into "user".apprise_addresses (user_id, url) values (%(user_id)s, %(url)s)
on conflict (user_id) do update set url = excluded.url;

-- name: drop_apprise
-- Remove the Apprise address of a user.
delete from "user".apprise_addresses where user_id = %(user_id)s;

-- name: list_apprise_services
-- The Apprise services of some users, without credentials.
select user_id, service from "user".apprise_addresses where user_id = any (%(user_ids)s::bigint[]);

-- name: list_webhooks
-- The webhook URLs of some users, without secrets.
select user_id, url from "user".webhooks where user_id = any (%(user_ids)s::bigint[]);
