"""What a log may say of a request: never an address that is itself the right to use it."""

import pytest

from duly.http.problems import redact_path


@pytest.mark.parametrize(
    ("path", "redacted"), [("/ics/s3cret.ics", "/ics/..."), ("/c/1.s3cret", "/c/..."), ("/v1/jobs", "/v1/jobs")]
)
def test_secret_parts_of_paths_are_redacted(path: str, redacted: str) -> None:
    assert redact_path(path) == redacted
