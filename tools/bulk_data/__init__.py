"""Millions of realistic rows in minutes, with the history that every invariant of `duly verify` asks for.

    build_jobs(connection, 1_000_000, FINISHED)       jobs of several orgs, types, queues and keys, and their events
    build_history(connection, 10_000_000)             events of jobs, messages, runs, posts, captures and days

Jobs are drawn from *shapes*: a shape is a history that a job may have (done at once, retried, dead letter, waiting),
and a mix says how many of a thousand have which. Everything is a function of a number, so that two builds are alike.

Rows are written as a restore writes them: by a superuser, without triggers, and indexed afterwards. Only for databases
that no other program uses. `python -m tools.bulk_data --jobs 5000000 ADDRESS` fills a migrated database by hand.
"""

from tools.bulk_data.builder import BACKLOG, FINISHED, MIXED, build_history, build_jobs, count_events

__all__ = ["BACKLOG", "FINISHED", "MIXED", "build_history", "build_jobs", "count_events"]
