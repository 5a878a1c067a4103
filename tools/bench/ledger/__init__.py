"""The ledger beside its peers: the same work, on the same server, in the same run.

    round 1:  drain       duly, pgqueuer, procrastinate        each with a fresh database of its own,
              drain2      duly, pgqueuer, procrastinate        a commit probe before and after,
              bulk        ...                                  workers in processes of their own
    round 2:  drain       pgqueuer, procrastinate, duly        whoever was first is last now
    ...

The server is private and durable (fsync and synchronous_commit on). We run as an installation does: row level security
forced, every move logged by the database, settles fenced, enqueues as `duly_api`, the worker as `duly_worker`. The
peers run as their documents say, at the settings that suit them best: pgqueuer with batches of 1000, procrastinate with
20 jobs at once. Every process of every side runs on uvloop.

How a drain is measured: the workers are up, warm and idle; all jobs become visible with one commit; the clock runs from
the answer to that commit until the last job is settled in the database.

`duly bench ledger` runs it; `docs/figures/ledger.md` tells what came out.
"""
