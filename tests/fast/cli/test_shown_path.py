"""What a log may say of a request: never an address that is itself the right to use it."""

import pytest

from duly.http.problems import redact_path


@pytest.mark.parametrize(
    ("path", "shown"), [("/ics/s3cret.ics", "/ics/..."), ("/c/1.s3cret", "/c/..."), ("/v1/jobs", "/v1/jobs")]
)
def test_addresses_that_are_secrets_are_left_out(path: str, shown: str) -> None:
    assert redact_path(path) == shown
