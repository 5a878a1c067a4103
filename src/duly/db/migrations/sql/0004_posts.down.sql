-- Without posts. What they wrote into the log stays there.

drop view posts.documents;
drop function posts.retain(bigint);
drop function posts.expire_uploads(bigint);
drop function posts.create_intent(text, uuid, bytea, text, text, boolean);
drop table posts.intent_minutes;
drop table posts.uploads;
drop table posts.idempotency_keys;
drop table posts.daily_locks;
drop table posts.posts;
drop function posts.posts_timeline();
drop function posts.posts_guard();
drop function posts.kept_name(text);
drop function posts.iso(timestamptz);
drop function posts.daily_key(text, timestamptz);
revoke all on schema posts from {worker}, {api}, {readonly};
