"""`python -m tools.bulk_data --jobs 5000000 ADDRESS`: fill a migrated database that no other program uses."""

import argparse
import sys

import psycopg

from tools.bulk_data.builder import BACKLOG, FINISHED, MIXED, build_history, build_jobs, count_events

MIXES = {"mixed": MIXED, "finished": FINISHED, "backlog": BACKLOG}


def main() -> None:
    """Build what the options ask for."""
    parser = argparse.ArgumentParser(prog="python -m tools.bulk_data", description="Fill a private database.")
    parser.add_argument("address", help="of the database, as its superuser")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--jobs", type=int, help="this many jobs with their events")
    what.add_argument("--events", type=int, help="about this many events of all applications")
    parser.add_argument("--mix", choices=MIXES, default="mixed")
    parser.add_argument("--first", type=int, default=1, help="number of the first job, to add to an earlier build")
    options = parser.parse_args()
    with psycopg.connect(options.address, autocommit=True) as connection:
        if options.events:
            build_history(connection, options.events)
        else:
            build_jobs(connection, options.jobs, MIXES[options.mix], first=options.first, on_progress=show)
        print(f"{count_events(connection):,} events")


def show(jobs: int) -> None:
    """Show how far it is."""
    print(f"{jobs:,} jobs", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
