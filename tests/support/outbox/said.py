"""What ends in the log of a process that logs as ours do."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from io import StringIO

from duly.logging import WITH_ADDRESSES, State, configure_logs
from duly.settings import Settings

__all__ = ["lines_of_log"]


@contextmanager
def lines_of_log(level: str) -> Generator[StringIO, None, None]:
    """All lines that are written meanwhile at this level, by whomever; afterwards all is as it was."""
    root, setup, stream = logging.getLogger(), State.setup, StringIO()
    handlers, before = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in WITH_ADDRESSES}
    configure_logs(Settings().model_copy(update={"log_level": level, "log_format": "json"}), stream)
    try:
        logging.getLogger("duly.tests").error("they are heard")
        assert "they are heard" in stream.getvalue()
        yield stream
    finally:
        root.handlers[:] = handlers
        root.setLevel(before)
        for name, of_it in levels.items():
            logging.getLogger(name).setLevel(of_it)
        State.setup = setup
        for late in State.logs.values():
            late.obey(setup)
