"""The ledger beside its peers: the same work, on the same server, in the same run.

    round 1:  drain       duly, pgqueuer, procrastinate, dbos, oban      each in an empty database of its own,
              drain2      duly, pgqueuer, procrastinate, dbos, oban      a commit probe before and after,
              bulk        ...                                            workers in processes of their own
    round 2:  drain       pgqueuer, procrastinate, dbos, oban, duly      each round begins with another system
    ...

The server is private and durable (fsync and synchronous_commit on). duly runs as an installation does: row level
security forced, every transition logged by the database, settles fenced, enqueues as `duly_api`, the worker as
`duly_worker`. The peers run as their documents say, at the settings that suit them best. procrastinate, DBOS and Oban
keep finished jobs, as duly does; pgqueuer deletes them and writes a line of log. Every process runs on uvloop.

    system.py        what a system must be able to do; system_<name>.py does it with that system's own code
    peers.py         systems installed on demand in environments of their own; remote.py enqueues with them from there
    drain.py         warm and idle workers, then all jobs with one commit
    paths.py         our paths other than success: retry, dead letter, hand-back, progress, cancel
    footprint.py     our WAL, buffers and statements step by step, bytes of a finished job: to compare two trees with
    scenarios.py     everything above by name

`duly bench ledger` runs it; `docs/figures/ledger.md` explains what is measured and shows figures.
"""
