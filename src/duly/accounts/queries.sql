-- Orgs, people, API keys and calendars.

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

-- name: create_person
-- The unique uid decides who created it; no row returned means that it existed.
insert into duly.person (uid, telegram_id, zone, language, currency)
values (%(uid)s, %(telegram_id)s, %(zone)s, %(language)s, %(currency)s)
on conflict (uid) do nothing
returning *;

-- name: find_person
-- By uid.
select * from duly.person where uid = %(uid)s;

-- name: change_person
-- A null parameter leaves its column unchanged; no row returned means that the uid is unknown. A changed zone makes the
-- scheduler plan again, by its trigger person_follow_zone.
update duly.person
set telegram_id = coalesce(%(telegram_id)s::bigint, telegram_id),
    zone = coalesce(%(zone)s::text, zone),
    language = coalesce(%(language)s::text, language),
    currency = coalesce(%(currency)s::text, currency)
where uid = %(uid)s
returning *;

-- name: find_person_by_telegram
-- By Telegram id.
select * from duly.person where telegram_id = %(telegram_id)s;

-- name: create_telegram_person
-- Create a person for a Telegram id; false when it has one.
select duly.meet_telegram(%(telegram_id)s, %(language)s);

-- name: link_telegram
-- Link a Telegram id to a person who has none; false when the person has another one or does not exist.
select duly.link_telegram(%(person_id)s, %(telegram_id)s);

-- name: unlink_telegram
-- Remove the Telegram id of a person; days stored under that id are kept.
update duly.person set telegram_id = null where uid = %(uid)s returning *;

-- name: link_user
-- Link a person to a row of "user".users; the scheduler's trigger person_link_user checks that there is one.
update duly.person set user_id = %(user_id)s where uid = %(uid)s returning *;

-- name: list_people
-- A page after a cursor, in the order of their ids.
select * from duly.person where id > %(after_id)s
order by id
limit %(limit)s;

-- name: create_calendar
-- One token per person: a new one replaces the old one, which stops working. Only the hash is stored.
insert into duly.calendars (person_id, token_sha256) values (%(person_id)s, %(token_sha256)s)
on conflict (person_id) do update set token_sha256 = excluded.token_sha256, created_at = duly.clock();

-- name: revoke_calendar
-- Delete the token; the feed is no longer readable.
delete from duly.calendars where person_id = %(person_id)s;

-- name: find_calendar
-- The owner of a calendar, by the hash of its token.
select p.*
from duly.calendars as c
join duly.person as p on p.id = c.person_id
where c.token_sha256 = %(token_sha256)s;

-- name: create_key
-- Only the hash is stored; the lifetime starts at the database's clock.
insert into duly.api_keys (name, prefix, secret_sha256, scopes, org_id, person_id, expires_at)
values (
    %(name)s, %(prefix)s, %(secret_sha256)s, %(scopes)s, %(org_id)s, %(person_id)s,
    duly.clock() + make_interval(secs => %(lifetime_seconds)s)
)
returning id, name, prefix, scopes, org_id, person_id, created_at, expires_at, revoked_at,
    (select p.uid from duly.person as p where p.id = person_id) as uid;

-- name: list_keys
-- A page after a cursor, the newest last, including revoked and expired keys.
select id, name, prefix, scopes, org_id, person_id, created_at, expires_at, revoked_at,
    (select p.uid from duly.person as p where p.id = person_id) as uid
from duly.api_keys where (created_at, id) > (%(after_at)s, %(after_id)s)
order by created_at, id
limit %(limit)s;

-- name: find_live_key
-- A key is valid until it is revoked or expires, by the database's clock.
select id, name, prefix, scopes, org_id, person_id, created_at, expires_at, revoked_at, secret_sha256,
    (select p.uid from duly.person as p where p.id = person_id) as uid
from duly.api_keys
where prefix = %(prefix)s and revoked_at is null and (expires_at is null or expires_at > duly.clock());

-- name: revoke_keys
-- Revoke by prefix, org or person, whichever is given; a key that is already revoked keeps its revoked_at.
update duly.api_keys set revoked_at = duly.clock()
where revoked_at is null
    and (prefix = %(prefix)s or org_id = %(org_id)s or person_id = %(person_id)s)
returning id, name, prefix, scopes, org_id, person_id, created_at, expires_at, revoked_at,
    (select p.uid from duly.person as p where p.id = person_id) as uid;

-- name: find_key
-- By prefix, valid or not.
select id, name, prefix, scopes, org_id, person_id, created_at, expires_at, revoked_at,
    (select p.uid from duly.person as p where p.id = person_id) as uid
from duly.api_keys where prefix = %(prefix)s;

-- name: has_keys
-- Was a key ever created? A revoked one counts: authentication stays required.
select exists (select from duly.api_keys);

-- name: set_quiet_hours
-- Send no reminders in these hours of the person's day; null removes the quiet hours.
update duly.person set quiet_from = %(start)s::time, quiet_until = %(end)s::time
where uid = %(uid)s
returning *;

-- name: put_webhook
-- One address per person; a new one replaces the old one.
insert into duly.webhooks (person_id, url, secret) values (%(person_id)s, %(url)s, %(secret)s)
on conflict (person_id) do update set url = excluded.url, secret = excluded.secret;

-- name: drop_webhook
-- Remove the webhook of a person.
delete from duly.webhooks where person_id = %(person_id)s;

-- name: put_apprise
-- One address per person; a new one replaces the old one.
insert into duly.apprise_addresses (person_id, url) values (%(person_id)s, %(url)s)
on conflict (person_id) do update set url = excluded.url;

-- name: drop_apprise
-- Remove the Apprise address of a person.
delete from duly.apprise_addresses where person_id = %(person_id)s;

-- name: list_apprise_services
-- The Apprise services of some people, without credentials.
select person_id, service from duly.apprise_addresses where person_id = any (%(person_ids)s::bigint[]);

-- name: list_webhooks
-- The webhook URLs of some people, without secrets.
select person_id, url from duly.webhooks where person_id = any (%(person_ids)s::bigint[]);
