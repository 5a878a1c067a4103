"""A bucket is where the settings say; the error of a store that refuses or is silent says what to do."""

import socket
import time

import pytest

from duly.errors import DulyError, Misconfigured, Unavailable
from duly.storage import bucket, open_object_store
from tests.fast.storage.test_bucket import KEY, all_errors, answering
from tests.support.storage.s3_server import S3Server

ANSWERS = [
    (301, "PermanentRedirect", Misconfigured, "R2_REGION"),
    (307, "TemporaryRedirect", Misconfigured, "R2_REGION"),
    (400, "AuthorizationHeaderMalformed", Misconfigured, "R2_REGION"),
    (400, "InvalidRegionName", Misconfigured, "R2_REGION"),
    (400, "InvalidArgument", Misconfigured, KEY),  # R2 about a key that is too short
    (400, "RequestTimeout", Unavailable, "R2_ENDPOINT_URL"),
    (401, "Unauthorized", Misconfigured, KEY),
    (403, "AccessDenied", Misconfigured, KEY),
    (403, "RequestTimeTooSkewed", Misconfigured, "clock"),
    (404, "NoSuchBucket", Misconfigured, "R2_BUCKET"),
    (404, "NoSuchUpload", Misconfigured, "R2_BUCKET"),
    (405, "MethodNotAllowed", Misconfigured, "R2_ENDPOINT_URL"),
    (409, "OperationAborted", Unavailable, "409 OperationAborted"),
    (429, "TooManyRequests", Unavailable, "429 TooManyRequests"),
    (500, "InternalError", Unavailable, "500 InternalError"),
    (503, "SlowDown", Unavailable, "503 SlowDown"),
]


@pytest.fixture
def short_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store is silent after a moment."""
    monkeypatch.setattr(bucket, "REQUEST_SECONDS", 0.3)
    monkeypatch.setattr(bucket, "MAX_RETRIES", 1)


async def test_an_object_store_that_is_down_is_unavailable_within_a_minute(s3_server: S3Server) -> None:
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))  # bound, and not listening
        endpoint = f"http://127.0.0.1:{bound_socket.getsockname()[1]}"
        began = time.monotonic()
        for refused in await all_errors(open_object_store(s3_server.settings(R2_ENDPOINT_URL=endpoint))):
            assert isinstance(refused, Unavailable)
            assert endpoint in str(refused)
            assert "R2_ENDPOINT_URL" in str(refused)
    assert time.monotonic() - began < 60  # five verbs, each with all its retries


@pytest.mark.usefixtures("short_retries")
async def test_an_object_store_that_accepts_and_does_not_answer_is_unavailable(s3_server: S3Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for refused in await all_errors(open_object_store(s3_server.settings(R2_ENDPOINT_URL=endpoint))):
            assert isinstance(refused, Unavailable)


@pytest.mark.usefixtures("short_retries")
@pytest.mark.parametrize(("status", "code", "expected", "named"), ANSWERS)
async def test_object_store_errors_name_the_setting_to_fix(
    s3_server: S3Server, status: int, code: str, expected: type[DulyError], named: str
) -> None:
    with answering(status, code) as endpoint:
        objects = open_object_store(s3_server.settings(R2_ENDPOINT_URL=endpoint))
        with pytest.raises(expected, match=named):
            await objects.put("a", b"1")
