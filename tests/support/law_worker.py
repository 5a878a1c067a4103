"""A worker process over a table of the laws: `python -m tests.support.law_worker <dsn> <shape> [pace=value ...]`."""

import sys

from duly.logs import configure_logs
from duly.settings import load_settings
from duly.worker.runtime import run_worker
from tests.laws.tables import SHAPES
from tests.support.law_work import LawWork, tell


def main(dsn: str, name: str, *pace: str) -> None:
    """Work until told to stop; logs go to standard error, what handlers say to standard output."""
    settings = load_settings()
    configure_logs(settings, sys.stderr)
    shape = next(shape for shape in SHAPES if str(shape) == name)
    given = dict(each.split("=") for each in pace)
    work = LawWork(shape, **{key: type(getattr(LawWork(shape).pace, key))(value) for key, value in given.items()})
    tell("ready")
    run_worker([work], settings, dsn=dsn)
    tell("end")


if __name__ == "__main__":
    main(*sys.argv[1:])
