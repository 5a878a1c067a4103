"""A size limit for HTTP responses to Apprise plugins, which read them completely, however large once decompressed.

A timeout alone is not enough: a gigabyte arrives or decompresses within seconds. All plugins use `requests`, whose
adapter sees every response before its body is read; for sandboxed code it truncates the body there.
"""

import functools
from typing import TYPE_CHECKING, Any

from duly.outbox.channels.apprise.sandbox import ACTIVE_SANDBOX

if TYPE_CHECKING:
    from requests import Response
    from requests.adapters import HTTPAdapter

MAX_RESPONSE_BYTES = 1_048_576  # decompressed; more than for a webhook, since some plugins parse the response
CHUNK_BYTES = 65_536


def limit_responses() -> None:
    """Patch `requests` so that sandboxed code reads at most MAX_RESPONSE_BYTES of a response."""
    from requests.adapters import HTTPAdapter

    send = HTTPAdapter.send

    @functools.wraps(send)
    def send_and_truncate(self: "HTTPAdapter", *args: Any, **options: Any) -> "Response":
        response = send(self, *args, **options)
        if ACTIVE_SANDBOX.get() is not None:
            truncate_response(response)
        return response

    HTTPAdapter.send = send_and_truncate


def truncate_response(response: "Response") -> None:
    """Read the limit, close the connection, and present the part as the full body."""
    read = bytearray()
    for chunk in response.iter_content(CHUNK_BYTES):
        read += chunk
        if len(read) >= MAX_RESPONSE_BYTES:
            break
    response.close()
    response._content = bytes(read[:MAX_RESPONSE_BYTES])  # pyright: ignore[reportPrivateUsage]
    response._content_consumed = True  # pyright: ignore[reportPrivateUsage]
