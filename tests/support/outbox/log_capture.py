"""Captures the log of a process that is configured as duly's are."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from io import StringIO

from duly.logging import WITH_ADDRESSES, State, configure_logs
from duly.settings import Settings


@contextmanager
def capture_log_lines(level: str) -> Generator[StringIO, None, None]:
    """Capture all log lines of this level, of any logger, and restore the configuration afterwards."""
    root, setup, stream = logging.getLogger(), State.setup, StringIO()
    handlers, before = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in WITH_ADDRESSES}
    configure_logs(Settings().model_copy(update={"log_level": level, "log_format": "json"}), stream)
    try:
        logging.getLogger("duly.tests").error("captured")
        assert "captured" in stream.getvalue()
        yield stream
    finally:
        root.handlers[:] = handlers
        root.setLevel(before)
        for name, old_level in levels.items():
            logging.getLogger(name).setLevel(old_level)
        State.setup = setup
        for late in State.logs.values():
            late.apply(setup)
