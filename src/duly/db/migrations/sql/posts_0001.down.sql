-- Without posts. What they wrote into the log stays there.

drop view posts.documents;
drop table posts.objectives;
drop table posts.intent_minutes;
drop table posts.uploads;
drop table posts.idempotency_keys;
drop table posts.daily_locks;
drop table posts.posts;
revoke all on schema posts from {worker}, {api}, {readonly};
