"""Format tracebacks of handlers for storage: without duly's own frames, with secrets masked, and truncated."""

import re
import traceback
from pathlib import Path
from types import FrameType

MAX_TRACEBACK_BYTES = 16_384
ELLIPSIS = "\n…\n"
UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # characters that PostgreSQL text cannot store: NUL, lone surrogates
OWN_FILES = str(Path(__file__).parents[1]) + "/"
CALLER_PACKAGES = ("asyncio", "concurrent", "threading")  # standard library packages that call duly's functions


def strip_own_frames(error: BaseException) -> BaseException:
    """Make the traceback of an exception begin in the handler; leave it alone where the handler was never reached."""
    found = error.__traceback__
    while found is not None and is_own_frame(found.tb_frame):
        found = found.tb_next
    return error.with_traceback(found) if found is not None else error


def is_own_frame(frame: FrameType) -> bool:
    """Return whether a frame belongs to duly, or to the standard library code that calls a handler for it."""
    package, _, _ = str(frame.f_globals.get("__name__", "")).partition(".")
    return package in CALLER_PACKAGES or frame.f_code.co_filename.startswith(OWN_FILES)


def format_traceback(error: BaseException) -> str:
    """Format the traceback of an exception and of its causes for storage."""
    try:
        text = "".join(traceback.format_exception(strip_own_frames(error)))
    except Exception:  # its __str__, or that of a cause, raises
        text = "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__
    return truncate_text(text)


def format_stack(frame: FrameType | None) -> str | None:
    """Format the current stack of a thread for storage; None when it is only in duly's own code."""
    frames: list[traceback.FrameSummary] = []
    is_in_handler = False
    for each, line in reversed(list(traceback.walk_stack(frame))):
        is_in_handler = is_in_handler or not is_own_frame(each)
        if is_in_handler:
            frames.extend(traceback.StackSummary.extract([(each, line)]))
    text = "".join(traceback.format_list(frames))
    return truncate_text("Stack (most recent call last):\n" + text) if text else None


def strip_own_lines(dump: str) -> str:
    """Remove duly's own frames from the `faulthandler` dump of a child process."""
    own = (f'  File "{OWN_FILES}', '  File "<frozen runpy>"')
    return "\n".join(line for line in dump.splitlines() if not line.startswith(own))


def truncate_text(text: str) -> str:
    """Mask secrets in a text and cut its middle out when it is longer than MAX_TRACEBACK_BYTES."""
    from duly.redaction import masked  # imported here, so that a child process that never fails does not load it

    clean = UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", masked(text)).rstrip("\n")
    encoded = clean.encode()
    if len(encoded) <= MAX_TRACEBACK_BYTES:
        return clean
    budget = MAX_TRACEBACK_BYTES - len(ELLIPSIS.encode())
    first, last = encoded[: budget // 4], encoded[-(budget - budget // 4) :]
    return first.decode(errors="ignore") + ELLIPSIS + last.decode(errors="ignore")
