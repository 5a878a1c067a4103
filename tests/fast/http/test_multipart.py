"""Forms: a file is extracted unchanged, and anything but a form with one file is an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import InvalidArgument
from duly.http.multipart import extract_file

FORM_TYPE = "multipart/form-data; boundary=b0undary"
DISPOSITION = b'Content-Disposition: form-data; name="file"; filename="x.png"'


def form(data: bytes, headers: bytes = DISPOSITION) -> bytes:
    """Build a form with one part."""
    return b"--b0undary\r\n" + headers + b"\r\n\r\n" + data + b"\r\n--b0undary--\r\n"


@given(st.binary(max_size=300))
def test_uploaded_bytes_are_extracted_unchanged(data: bytes) -> None:
    assert extract_file(FORM_TYPE, form(data)) == data


@given(st.lists(st.sampled_from([b"\r\n", b"\r", b"\n", b"--", b"b0undary", b"\r\n--b0", b"x", b"\r\n\r\n"])))
def test_data_similar_to_a_boundary_is_kept_as_data(parts: list[bytes]) -> None:
    data = b"".join(parts)
    if b"\r\n--b0undary" not in b"\r\n" + data:
        assert extract_file(FORM_TYPE, form(data)) == data


@given(st.text(max_size=80), st.binary(max_size=300))
def test_any_other_body_is_refused_with_an_instruction(kind: str, body: bytes) -> None:
    for content_type in (None, kind, FORM_TYPE):
        with pytest.raises(InvalidArgument, match="send one file as multipart/form-data"):
            extract_file(content_type, body)


@given(st.integers(0, len(form(b"data")) - 6))
def test_truncated_form_is_refused(length: int) -> None:
    with pytest.raises(InvalidArgument):
        extract_file(FORM_TYPE, form(b"data")[:length])


def test_file_full_of_near_boundaries_is_refused_at_the_first() -> None:
    with pytest.raises(InvalidArgument, match="headers cannot be parsed"):
        extract_file(FORM_TYPE, form(b"\r\n--b0undaryx" * 100_000))


@pytest.mark.parametrize(
    "headers",
    [
        b"content-disposition:form-data;name=file;filename=x",
        b"Content-Type: image/png\r\nContent-Disposition: form-data; filename*=UTF-8''x; name=\"file\"",
        b'X-More: name="other"\r\nContent-Disposition: form-data; name="file"; filename=""',
    ],
)
def test_part_headers_are_parsed_in_every_valid_spelling(headers: bytes) -> None:
    assert extract_file(FORM_TYPE, form(b"data", headers)) == b"data"


@pytest.mark.parametrize(
    "headers",
    [
        b'Content-Disposition: form-data; name="file"',
        b'Content-Disposition: attachment; name="file"; filename="x"',
        b'Content-Disposition: form-data; name="other"; filename="x"',
        b'Content-Disposition: form-data; filename="x"',
        b"Content-Type: image/png",
    ],
)
def test_part_that_is_not_a_file_in_the_expected_field_is_refused(headers: bytes) -> None:
    with pytest.raises(InvalidArgument, match="not a file in the field file"):
        extract_file(FORM_TYPE, form(b"data", headers))
