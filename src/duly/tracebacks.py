"""Tracebacks of handlers: the user's frames without ours around them, masked and cut so that they can be stored."""

import re
import traceback
from pathlib import Path
from types import FrameType

__all__ = [
    "MAX_TRACEBACK_BYTES",
    "cut_text",
    "stack_text",
    "traceback_text",
    "without_our_frames",
    "without_our_lines",
]

MAX_TRACEBACK_BYTES = 16_384
CUT = "\n…\n"
UNSTORABLE = re.compile("[\0\ud800-\udfff]")
OUR_FILES = str(Path(__file__).parents[1]) + "/"
OUR_CALLERS = ("asyncio", "concurrent", "threading")  # packages of the standard library that call our functions


def without_our_frames(error: BaseException) -> BaseException:
    """The exception with a traceback that begins in the handler; left alone where the handler was never reached."""
    found = error.__traceback__
    while found is not None and is_ours(found.tb_frame):
        found = found.tb_next
    return error.with_traceback(found) if found is not None else error


def is_ours(frame: FrameType) -> bool:
    """Does this frame belong to duly, or to what calls a handler for it?"""
    package, _, _ = str(frame.f_globals.get("__name__", "")).partition(".")
    return package in OUR_CALLERS or frame.f_code.co_filename.startswith(OUR_FILES)


def traceback_text(error: BaseException) -> str:
    """The traceback of an exception and of its causes, fit to be stored."""
    try:
        text = "".join(traceback.format_exception(without_our_frames(error)))
    except Exception:  # its own words, or those of a cause, cannot be read
        text = "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__
    return cut_text(text)


def stack_text(frame: FrameType | None) -> str | None:
    """Where a thread is at this moment, fit to be stored; None when that is nowhere but in our own code."""
    frames: list[traceback.FrameSummary] = []
    is_in_handler = False
    for each, line in reversed(list(traceback.walk_stack(frame))):
        is_in_handler = is_in_handler or not is_ours(each)
        if is_in_handler:
            frames.extend(traceback.StackSummary.extract([(each, line)]))
    text = "".join(traceback.format_list(frames))
    return cut_text("Stack (most recent call last):\n" + text) if text else None


def without_our_lines(dump: str) -> str:
    """What `faulthandler` wrote of a child process, without the frames that are ours."""
    ours = (f'  File "{OUR_FILES}', '  File "<frozen runpy>"')
    return "\n".join(line for line in dump.splitlines() if not line.startswith(ours))


def cut_text(text: str) -> str:
    """A text without secrets and of a size that can be kept; too long, its middle is left out."""
    from duly.logging import masked  # only here: a child process that never fails need not load it

    clean = UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", masked(text)).rstrip("\n")
    encoded = clean.encode()
    if len(encoded) <= MAX_TRACEBACK_BYTES:
        return clean
    room = MAX_TRACEBACK_BYTES - len(CUT.encode())
    first, last = encoded[: room // 4], encoded[-(room - room // 4) :]
    return first.decode(errors="ignore") + CUT + last.decode(errors="ignore")
