"""Sanitizing of uploaded photographs: decoded within limits, and encoded again with nothing but the pixels.

Any input gives an image or an InvalidArgument. Limits are checked before decoding: the size of the file, its structure,
and the number of pixels in the header. Images are decoded one at a time: the largest needs some 700 MB, and the
library's warnings can be silenced for the full process only.
"""

import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import TypeVar

from PIL import Image, ImageCms
from PIL.Image import Transpose

from duly.errors import DulyError, InvalidArgument, TooLarge
from duly.storage.image_structure import check_structure

MAX_PHOTO_BYTES = 20 * 1024 * 1024
MAX_PIXELS = 40_000_000
MAX_SIDE_LENGTH = 65_500  # of a JPEG
MAX_PROFILE_BYTES = 16 * 1024  # cameras and screens use less; larger ones are for printers

FORMATS = ("JPEG", "PNG", "WEBP")
MODES = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "I;16"}
LOSSLESS_FORMAT = "PNG"
PNG_COMPRESS_LEVEL = 4  # of 9; more saves little and takes long
JPEG_QUALITIES = (88, 70, 50)  # the first with a result within the limit is used
WHITE = (255, 255, 255)
ORIENTATION = 0x0112
TRANSPOSITIONS = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}

T = TypeVar("T")
decode_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Screenshot:
    """A sanitized screenshot."""

    data: bytes
    suffix: str  # of its file name: jpg or png


def clean_photo(data: bytes) -> bytes:
    """Return an image as a JPEG of at most MAX_PHOTO_BYTES, upright, on white, without metadata."""
    with decode_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return encode_jpeg(flatten(open_photo(data)))


def clean_screenshot(data: bytes) -> Screenshot:
    """Return an image for OCR: a PNG stays lossless, any other becomes a JPEG as in `clean_photo`."""
    with decode_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = open_photo(data)
        if image.format != LOSSLESS_FORMAT:
            return Screenshot(encode_jpeg(flatten(image)), "jpg")
        picture = flatten(image)
        encoded = or_unreadable(lambda: to_png(picture))
    if len(encoded) > MAX_PHOTO_BYTES:
        raise TooLarge(f"the re-encoded PNG has more than {MAX_PHOTO_BYTES // 1024**2} MiB; crop it, or send a JPEG")
    return Screenshot(encoded, "png")


def encode_jpeg(picture: Image.Image) -> bytes:
    """Encode as a JPEG of at most MAX_PHOTO_BYTES, with lower quality if needed."""
    for quality in JPEG_QUALITIES:
        encoded = or_unreadable(lambda quality=quality: to_jpeg(picture, quality))
        if len(encoded) <= MAX_PHOTO_BYTES:
            return encoded
    raise too_many_bytes_error()


def decode_photo(data: bytes) -> Image.Image:
    """Decode an image in its own size, upright, on white."""
    with decode_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return flatten(open_photo(data)).copy()  # the copy does not keep the file in memory


def decode_thumbnail(data: bytes, size: int = 128) -> Image.Image:
    """Decode an image to at most `size` pixels per side, upright, on white."""
    assert size > 0
    with decode_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = open_photo(data)
        or_unreadable(lambda: image.draft("RGB", (size, size)))  # a JPEG can be decoded at an eighth of its size
        picture = flatten(image)
        or_unreadable(lambda: picture.thumbnail((size, size)))
        return picture.copy()  # the copy does not keep the file in memory


def make_thumbnail_jpeg(data: bytes, size: int) -> bytes:
    """Return a thumbnail as a JPEG without metadata."""
    picture = decode_thumbnail(data, size)
    return or_unreadable(lambda: to_jpeg(picture, JPEG_QUALITIES[0]))


def open_photo(data: bytes) -> Image.Image:
    """Open an image without decoding it; raises InvalidArgument or TooLarge above a limit."""
    if len(data) > MAX_PHOTO_BYTES:
        raise too_many_bytes_error()
    check_structure(data)
    image = or_unreadable(lambda: read_header(data))
    width, height = image.size
    if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE_LENGTH:
        raise too_many_pixels_error()
    if image.mode not in MODES:
        raise unreadable_error()
    return image


def read_header(data: bytes) -> Image.Image:
    """Read the header of an image."""
    try:
        return Image.open(BytesIO(data), formats=FORMATS)
    except Image.DecompressionBombError:  # the limit of the library, which is above ours
        raise too_many_pixels_error() from None


def flatten(image: Image.Image) -> Image.Image:
    """Decode an opened image to its first frame, upright, in sRGB, without metadata."""
    or_unreadable(image.load)
    transposition = attempt(lambda: TRANSPOSITIONS.get(image.getexif()[ORIENTATION]))
    profile = image.info.get("icc_profile")
    rgb = or_unreadable(lambda: to_rgb_on_white(image))
    picture = attempt(lambda: to_srgb(rgb, profile)) or rgb
    picture.info.clear()  # a comment, for example, would be encoded with it
    return or_unreadable(lambda: picture.transpose(transposition)) if transposition is not None else picture


def to_srgb(image: Image.Image, profile: object) -> Image.Image | None:
    """Convert an image to sRGB; return None when it is sRGB already or has no usable profile."""
    if not isinstance(profile, bytes) or len(profile) > MAX_PROFILE_BYTES:
        return None
    source_profile = ImageCms.ImageCmsProfile(BytesIO(profile))
    if "sRGB" in ImageCms.getProfileDescription(source_profile):
        return None
    return ImageCms.profileToProfile(image, source_profile, ImageCms.createProfile("sRGB"))  # type: ignore[no-untyped-call]


def to_rgb_on_white(image: Image.Image) -> Image.Image:
    """Convert an image to RGB, with white where it was transparent."""
    if image.mode == "I;16":  # `convert` would clip it instead of scaling
        image = image.convert("I").point(lambda grey: grey * (1 / 256)).convert("L")
    if not image.has_transparency_data:
        return image if image.mode == "RGB" else image.convert("RGB")
    rgba = image.convert("RGBA")
    white = Image.new("RGB", rgba.size, WHITE)
    white.paste(rgba, mask=rgba.getchannel("A"))
    return white


def to_jpeg(picture: Image.Image, quality: int) -> bytes:
    """Encode as a JPEG."""
    file = BytesIO()
    picture.save(file, "JPEG", quality=quality)
    return file.getvalue()


def to_png(picture: Image.Image) -> bytes:
    """Encode as a PNG."""
    file = BytesIO()
    picture.save(file, LOSSLESS_FORMAT, compress_level=PNG_COMPRESS_LEVEL)
    return file.getvalue()


def or_unreadable(work: Callable[[], T]) -> T:
    """Return the result of a step; raises InvalidArgument when the library fails."""
    result = attempt(lambda: (work(),))
    if result is None:
        raise unreadable_error()
    return result[0]


def attempt(work: Callable[[], T]) -> T | None:
    """Return the result of a step, or None when the library fails; errors of duly are raised.

    Hostile input makes the library raise nearly anything: OSError, SyntaxError, struct.error, EOFError, KeyError,
    OverflowError, MemoryError; which of them is not documented.
    """
    try:
        return work()
    except DulyError:
        raise
    except Exception:
        return None


def unreadable_error() -> InvalidArgument:
    """Return the error for a file that is no image, or a broken one."""
    return InvalidArgument("the file is not a readable image; send a complete JPEG, PNG or WEBP")


def too_many_pixels_error() -> InvalidArgument:
    """Return the error for an image with too many pixels."""
    return InvalidArgument(
        f"the image has more than {MAX_PIXELS // 1_000_000} million pixels, or a side of more than "
        f"{MAX_SIDE_LENGTH}; make it smaller"
    )


def too_many_bytes_error() -> TooLarge:
    """Return the error for a file with too many bytes."""
    return TooLarge(f"the image has more than {MAX_PHOTO_BYTES // 1024**2} MiB; make it smaller")
