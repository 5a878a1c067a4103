"""Whatever the bytes are, the answer is a photograph or a refusal, soon, and without much memory."""

import struct
import subprocess
import time
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from duly.errors import InvalidArgument
from duly.launcher import ROOT
from duly.storage import MAX_PIXELS, clean_photo, decode_thumbnail
from duly.storage.image_structure import MAX_PARTS, MAX_SCANS
from tests.support.processes import PYTHON, plain_environment
from tests.support.storage.pictures import chunk, gradient, photo_with_metadata, png_with_header, written

READERS = (clean_photo, decode_thumbnail)
HONEST = {
    "jpeg": photo_with_metadata("JPEG"),
    "progressive": written(gradient(), progressive=True),
    "png": photo_with_metadata("PNG"),
    "palette": written(gradient(mode="P"), "PNG"),
    "webp": photo_with_metadata("WEBP"),
    "lossy webp": written(gradient(), "WEBP"),
    "moving webp": written(gradient(), "WEBP", save_all=True, append_images=[gradient(mode="L").convert("RGB")]),
    "several": written(gradient(), "MPO", save_all=True, append_images=[gradient()]),
}
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><image href="http://169.254.169.254/"/></svg>'
NOT_PHOTOGRAPHS = {
    "nothing": b"",
    "a byte": b"\xff",
    "text": b"Dear Sir or Madam, " * 100,
    "an SVG": SVG,
    "a PDF": b"%PDF-1.7\n",
    "a GIF": written(gradient(mode="P"), "GIF"),
    "a TIFF": written(gradient(), "TIFF"),
    "a BMP": written(gradient(), "BMP"),
    "an ICO": written(gradient(), "ICO"),
    "an EPS": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n",
    "a JPEG's beginning": b"\xff\xd8\xff\xe0",
    "a PNG's beginning": b"\x89PNG\r\n\x1a\n",
    "a WEBP's beginning": b"RIFF\x00\x00\x00\x00WEBP",
    "a PNG of no size": png_with_header(0, 0),
}
MEMORY = """
import resource, sys
from pathlib import Path
from duly.errors import InvalidArgument
from duly.storage import clean_photo, decode_thumbnail
from tests.support.storage.pictures import gradient, written

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

clean_photo(written(gradient()))
data, before = Path(sys.argv[1]).read_bytes(), peak()
for read in (clean_photo, decode_thumbnail):
    try:
        read(data)
    except InvalidArgument as refusal:
        print(refusal)
print(peak() - before)
"""


@pytest.mark.parametrize("data", NOT_PHOTOGRAPHS.values(), ids=NOT_PHOTOGRAPHS)
def test_data_that_is_not_a_photograph_is_refused(data: bytes) -> None:
    for read in READERS:
        with pytest.raises(InvalidArgument, match="send a complete JPEG, PNG or WEBP"):
            read(data)


@pytest.mark.parametrize("data", HONEST.values(), ids=HONEST)
def test_truncated_photograph_is_refused(data: bytes) -> None:
    for read in READERS:
        with pytest.raises(InvalidArgument, match="send a complete JPEG, PNG or WEBP"):
            read(data[: len(data) // 2] if data is not HONEST["several"] else data[: len(data) // 4])


def huge_but_compressible() -> bytes:
    """A black PNG of a hundred million pixels, as it should be."""
    squeeze = zlib.compressobj(1)
    rows = [squeeze.compress(bytes(10_001) * 1000) for _ in range(10)]
    return png_with_header(10_000, 10_000, chunk(b"IDAT", b"".join([*rows, squeeze.flush()])))


def webp_claiming(width: int, height: int) -> bytes:
    """A moving WEBP whose canvas is large and whose picture is small."""
    picture = written(Image.new("RGB", (8, 8)), "WEBP", lossless=True)[12:]
    canvas = b"\2\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    frame = bytes(6) + (7).to_bytes(3, "little") * 2 + bytes(4) + picture
    parts = [(b"VP8X", canvas), (b"ANIM", bytes(6)), (b"ANMF", frame)]
    body = b"WEBP" + b"".join(kind + struct.pack("<I", len(part)) + part for kind, part in parts)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def jpeg_claiming(width: int, height: int) -> bytes:
    """A JPEG whose header lies about its size."""
    data = written(gradient())
    offset = data.index(b"\xff\xc0") + 5
    return data[:offset] + struct.pack(">HH", height, width) + data[offset + 4 :]


BOMBS = {
    "a PNG that claims ten thousand million": png_with_header(100_000, 100_000, chunk(b"IDAT", zlib.compress(b""))),
    "a PNG that claims little more than we take": png_with_header(MAX_PIXELS // 5000 + 1, 5000),
    "a PNG that really has a hundred million": huge_but_compressible(),
    "a PNG that is long and thin": png_with_header(100_000, 2),
    "a JPEG that claims four thousand million": jpeg_claiming(65_000, 65_000),
    "a WEBP that claims two hundred million": webp_claiming(16_384, 16_384),
}


@pytest.mark.parametrize("data", BOMBS.values(), ids=BOMBS)
def test_too_many_pixels_are_refused_before_memory_is_allocated(data: bytes, tmp_path: Path) -> None:
    assert len(data) < 1_000_000
    refusals, megabytes = refusals_in_subprocess(data, tmp_path)
    assert len(refusals) == 2
    assert all("40 million pixels" in refusal for refusal in refusals)
    assert megabytes < 40


def test_compressed_text_chunk_is_not_decompressed(tmp_path: Path) -> None:
    text = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(100_000_000)))
    refusals, megabytes = refusals_in_subprocess(png_with_header(8, 8, text), tmp_path)
    assert len(refusals) == 2
    assert megabytes < 40


def refusals_in_subprocess(data: bytes, directory: Path) -> tuple[list[str], int]:
    """How a process of its own refuses the bytes, and how many megabytes more it needs for that."""
    file = directory / "photo"
    file.write_bytes(data)
    command = [*PYTHON, "-c", MEMORY, str(file)]
    environment = plain_environment(PYTHONPATH=f"{ROOT}:{ROOT / 'src'}")
    ran = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert ran.stderr == ""
    *refusals, megabytes = ran.stdout.splitlines()
    return refusals, int(megabytes)


def many_scans(count: int) -> bytes:
    """A progressive JPEG that goes over its picture again and again, without anything that counts having its place."""
    data = written(Image.new("L", (5000, 5000)), progressive=True)
    last = data.rindex(b"\xff\xda")
    scan, end = data[last:-2], data[-2:]
    return data[:-2] + (b"\xff\x01" + b"\0" + scan) * count + end


def many_parts(count: int) -> list[bytes]:
    """Files whose header consists of very many parts, or of rubbish that is read byte by byte."""
    jpeg, png = written(gradient()), written(gradient(), "PNG")
    rubbish = (b"\xff\xfe\0\2", b"\xff", b"\0", b"\xff\0", b"\xff\xd9", b"\xff\x01", b"\xff\xd0")
    return [
        *(jpeg[:2] + part * count + jpeg[2:] for part in rubbish),
        png[:33] + chunk(b"prVt") * count + png[33:],
    ]


def test_jpeg_with_very_many_scans_is_refused_at_once() -> None:
    keeping_busy = many_scans(20_000)
    assert len(keeping_busy) < 2_000_000
    started_at = time.monotonic()
    for read in READERS:
        with pytest.raises(InvalidArgument, match="unusual structure"):
            read(keeping_busy)
    assert time.monotonic() - started_at < 5  # and not an hour


def test_image_with_very_many_segments_is_refused_at_once() -> None:
    for data in many_parts(MAX_PARTS + 1):
        with pytest.raises(InvalidArgument, match="unusual structure"):
            clean_photo(data)


def test_unusual_structures_of_real_cameras_are_accepted() -> None:
    film = bytes(range(256)) * 4000 + b"\xff\xda\0\2" * 1000
    assert clean_photo(written(gradient(), progressive=True) + film)
    assert decode_thumbnail(many_scans(MAX_SCANS // 4))
    assert clean_photo(written(gradient(500, 500), restart_marker_blocks=1))
    assert clean_photo(written(gradient(), "PNG") + bytes(1_000_000))
    comments, padding, *_, chunks = many_parts(50)
    assert all(clean_photo(data) for data in (comments, padding, chunks))


@given(st.binary(max_size=2000) | st.binary(max_size=500).map(lambda data: b"\xff\xd8\xff" + data))
def test_random_bytes_raise_invalid_argument(data: bytes) -> None:
    for read in READERS:
        with pytest.raises(InvalidArgument):
            read(data)
