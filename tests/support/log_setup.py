"""Leave logging as it was: commands and servers that run inside the test process configure it for themselves."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

from duly.logging import LOUD_LIBRARIES, WITH_ADDRESSES, Output, State

LIBRARIES = (*WITH_ADDRESSES, *LOUD_LIBRARIES)


@contextmanager
def restored_logging() -> Generator[None, None, None]:
    """Restore our setup, our handlers and the levels of libraries; handlers of pytest are not touched."""
    root, setup = logging.getLogger(), State.setup
    root_level, outputs = root.level, own_handlers()
    levels = {name: logging.getLogger(name).level for name in LIBRARIES}
    try:
        yield
    finally:
        for handler in own_handlers():
            if handler not in outputs:
                root.removeHandler(handler)
        for handler in outputs:
            root.addHandler(handler)  # does nothing where it still is
        root.setLevel(root_level)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        if State.setup is not setup:
            State.setup = setup
            for log in State.logs.values():
                log.apply(setup)


def own_handlers() -> list[logging.Handler]:
    """List the root's handlers that are ours."""
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, Output)]
