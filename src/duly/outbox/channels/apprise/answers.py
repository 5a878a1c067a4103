"""What a service answers, read only so far: plugins take it whole, however long it is and however small it was packed.

Time alone would not do: a gigabyte comes or unpacks within seconds. Plugins share one library, requests, and every
answer passes through its adapter before anything of the body was read; there, code on a leash gets the beginning.
"""

import functools
from typing import TYPE_CHECKING, Any

from duly.outbox.channels.apprise.sandbox import HELD

if TYPE_CHECKING:
    from requests import Response
    from requests.adapters import HTTPAdapter

__all__ = ["bound_answers"]

MAX_ANSWER_BYTES = 1_048_576  # unpacked; more than for a webhook, since some plugins look something up in an answer
PIECE_BYTES = 65_536


def bound_answers() -> None:
    """From now on, whoever is on a leash gets the beginning of an answer, and no more of it is read."""
    from requests.adapters import HTTPAdapter

    send = HTTPAdapter.send

    @functools.wraps(send)
    def send_and_read_some(self: "HTTPAdapter", *args: Any, **options: Any) -> "Response":
        answer = send(self, *args, **options)
        if HELD.get() is not None:
            keep_beginning(answer)
        return answer

    HTTPAdapter.send = send_and_read_some


def keep_beginning(answer: "Response") -> None:
    """Read so far, hang up on the rest, and let the answer seem whole."""
    read = bytearray()
    for piece in answer.iter_content(PIECE_BYTES):
        read += piece
        if len(read) >= MAX_ANSWER_BYTES:
            break
    answer.close()
    answer._content = bytes(read[:MAX_ANSWER_BYTES])  # pyright: ignore[reportPrivateUsage]
    answer._content_consumed = True  # pyright: ignore[reportPrivateUsage]
