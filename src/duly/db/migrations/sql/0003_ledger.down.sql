-- Without the ledger, and without its jobs. What had been carried over from another table does not go back there.

drop function ledger.erase(uuid, uuid, text, text);
drop function ledger.retain(bigint);
drop function ledger.redrive(uuid, bigint, text, text, text, text, timestamptz, timestamptz);
drop function ledger.retry(uuid, uuid, text);
drop function ledger.cancel(uuid, uuid, text, boolean, boolean);
drop function ledger.release_key(uuid, uuid, text);
drop function ledger.claim(text[], text[], text, double precision, bigint, integer[], timestamptz[], uuid[]);
drop function ledger.room_for(text);
drop function ledger.mark_expired(uuid[], bigint);
drop function ledger.find_next(text[], text[]);
drop function ledger.is_locked(uuid, uuid);
drop function ledger.complete(uuid, text, jsonb, text);
drop function ledger.fence(uuid, text, text);
drop function ledger.done(uuid[], text[], jsonb[]);
drop function ledger.enqueue_many(
    uuid, text, jsonb[], text[], text, integer[], timestamptz[], double precision, integer, ledger.job_backoff_policy,
    double precision, double precision, double precision, interval, text, text
);
drop function ledger.enqueue(
    uuid, text, jsonb, text, text, integer, timestamptz, double precision, integer, ledger.job_backoff_policy,
    double precision, double precision, double precision, interval, text, text
);
drop function ledger.wake();
drop function ledger.refuse_other_request(uuid, text, text, text, jsonb, timestamptz, double precision);
drop function ledger.digest_of(text, text, jsonb, timestamptz, double precision);
drop function ledger.origin_of(text, text);
drop function ledger.require_tenant(uuid);
drop function ledger.refuse_other_tenant(uuid);
drop table ledger.job_limit;
drop table ledger.job_event;
drop table ledger.job;
drop function ledger.job_timeline();
drop function ledger.job_guard();
drop function ledger.event_id(uuid, bigint);
drop type ledger.job_backoff_policy;
drop type ledger.job_status;
drop sequence duly.wake_ledger;
revoke all on schema ledger from {worker}, {api}, {readonly};
