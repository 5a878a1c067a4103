"""Whatever the bytes are, the answer is a photograph or a refusal, soon, and without much memory."""

import zlib
from io import BytesIO
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from duly.errors import InvalidArgument, TooLarge
from duly.storage import clean_photo, decode_thumbnail
from tests.fast.storage.test_hostile_photo import HONEST, refusals_in_subprocess
from tests.support.storage.pictures import chunk, png_with_header


def test_an_image_with_oversized_pixel_data_is_refused_with_little_memory(tmp_path: Path) -> None:
    squeeze = zlib.compressobj(9)
    rows = [squeeze.compress(bytes(10_000_000)) for _ in range(50)]
    data = png_with_header(8, 8, chunk(b"IDAT", b"".join([*rows, squeeze.flush()])))
    assert refusals_in_subprocess(data, tmp_path)[1] < 40


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """An honest photograph with some bytes changed, taken out, doubled or cut off."""
    data = bytearray(HONEST[draw(st.sampled_from(sorted(HONEST)))])
    for position in draw(st.lists(st.integers(0, len(data) - 1), max_size=12)):
        match draw(st.sampled_from(["change", "remove", "double", "insert"])):
            case "change":
                data[position % len(data)] = draw(st.integers(0, 255))
            case "remove":
                del data[position % len(data) : position % len(data) + draw(st.integers(1, 8))]
            case "double":
                data[position:position] = data[position : position + draw(st.integers(1, 64))]
            case _:
                data[position:position] = draw(st.binary(min_size=1, max_size=8))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(damaged())
def test_a_damaged_photograph_is_cleaned_or_refused_with_our_own_error(data: bytes) -> None:
    try:
        cleaned = clean_photo(data)
    except (InvalidArgument, TooLarge):
        return
    assert Image.open(BytesIO(cleaned)).format == "JPEG"


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(damaged(), st.integers(1, 300))
def test_a_damaged_photograph_is_decoded_or_refused_with_our_own_error(data: bytes, size: int) -> None:
    try:
        image = decode_thumbnail(data, size)
    except (InvalidArgument, TooLarge):
        return
    assert max(image.size) <= size
    assert image.mode == "RGB"
