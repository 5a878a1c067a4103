"""A photograph from a stranger: read with care, and written anew with nothing in it but the picture.

Whatever the bytes are, the answer is a photograph or a refusal that a person understands. Limits are checked before
anything is decoded: how many bytes there are, how they are laid out, and how many pixels the header promises. One
photograph is decoded at a time: the largest takes some 700 MB, and the library's warnings, which are not for our
readers, can be silenced for the whole process only.
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
from duly.storage.image_outline import check_outline

__all__ = [
    "MAX_PHOTO_BYTES",
    "MAX_PIXELS",
    "Screenshot",
    "clean_photo",
    "clean_screenshot",
    "plain_photo",
    "small_jpeg",
    "small_photo",
    "unreadable",
]

MAX_PHOTO_BYTES = 20 * 1024 * 1024
MAX_PIXELS = 40_000_000
MAX_SIDE_LENGTH = 65_500  # of a JPEG
MAX_PROFILE_BYTES = 16 * 1024  # cameras and screens need less; larger ones are for printers

FORMATS = ("JPEG", "PNG", "WEBP")
MODES = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "I;16"}
LOSSLESS = "PNG"
PNG_EFFORT = 4  # of 9: what more would save is not worth the time
QUALITIES = (88, 70, 50)  # the first whose result is not too large
WHITE = (255, 255, 255)
ORIENTATION = 0x0112
TURNS = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}

T = TypeVar("T")
one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True)
class Screenshot:
    """A picture of a screen, written anew."""

    data: bytes
    kind: str  # the ending of its name


def clean_photo(data: bytes) -> bytes:
    """The same picture as a JPEG of at most LARGEST_PHOTO_BYTES, upright, on white, and without any metadata."""
    with one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return as_jpeg(picture_of(open_photo(data)))


def clean_screenshot(data: bytes) -> Screenshot:
    """The same picture to be read later: of a PNG every point as it was, of others a JPEG, as clean_photo makes it."""
    with one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = open_photo(data)
        if image.format != LOSSLESS:
            return Screenshot(as_jpeg(picture_of(image)), "jpg")
        picture = picture_of(image)
        written = must(lambda: to_png(picture))
    if len(written) > MAX_PHOTO_BYTES:
        raise TooLarge(
            f"written anew, the picture has more than {MAX_PHOTO_BYTES // 1024**2} MiB; cut it, or send a JPEG"
        )
    return Screenshot(written, "png")


def as_jpeg(picture: Image.Image) -> bytes:
    """The picture as a JPEG that is not too large."""
    for quality in QUALITIES:
        written = must(lambda quality=quality: to_jpeg(picture, quality))
        if len(written) <= MAX_PHOTO_BYTES:
            return written
    raise too_many_bytes()


def plain_photo(data: bytes) -> Image.Image:
    """The same picture in its own size, upright, on white, to be read."""
    with one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return picture_of(open_photo(data)).copy()  # which has forgotten the file


def small_photo(data: bytes, size: int = 128) -> Image.Image:
    """The same picture at most `size` pixels wide and high, upright, on white, to look at."""
    assert size > 0
    with one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = open_photo(data)
        must(lambda: image.draft("RGB", (size, size)))  # a JPEG can be decoded at an eighth of its size
        picture = picture_of(image)
        must(lambda: picture.thumbnail((size, size)))
        return picture.copy()  # which has forgotten the file


def small_jpeg(data: bytes, size: int) -> bytes:
    """The same as a file, without any metadata, to be sent to somebody who looks at it."""
    picture = small_photo(data, size)
    return must(lambda: to_jpeg(picture, QUALITIES[0]))


def open_photo(data: bytes) -> Image.Image:
    """A photograph of which the header is read, and nothing else; refused when it is more than we take."""
    if len(data) > MAX_PHOTO_BYTES:
        raise too_many_bytes()
    check_outline(data)
    image = must(lambda: read_header(data))
    width, height = image.size
    if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE_LENGTH:
        raise too_many_pixels()
    if image.mode not in MODES:
        raise unreadable()
    return image


def read_header(data: bytes) -> Image.Image:
    """The photograph as its first bytes describe it."""
    try:
        return Image.open(BytesIO(data), formats=FORMATS)
    except Image.DecompressionBombError:  # the library has a limit too, above ours
        raise too_many_pixels() from None


def picture_of(image: Image.Image) -> Image.Image:
    """What can be seen of an opened photograph: its first picture, upright, in plain colours, and nothing else."""
    must(image.load)
    turn = attempt(lambda: TURNS.get(image.getexif()[ORIENTATION]))
    profile = image.info.get("icc_profile")
    plain = must(lambda: on_white(image))
    picture = attempt(lambda: in_common_colours(plain, profile)) or plain
    picture.info.clear()  # a comment, for one, would be written with it
    return must(lambda: picture.transpose(turn)) if turn is not None else picture


def in_common_colours(image: Image.Image, profile: object) -> Image.Image | None:
    """The image in the colours that everybody assumes; None when its profile says the same, or nothing simple."""
    if not isinstance(profile, bytes) or len(profile) > MAX_PROFILE_BYTES:
        return None
    own = ImageCms.ImageCmsProfile(BytesIO(profile))
    if "sRGB" in ImageCms.getProfileDescription(own):
        return None
    return ImageCms.profileToProfile(image, own, ImageCms.createProfile("sRGB"))  # type: ignore[no-untyped-call]


def on_white(image: Image.Image) -> Image.Image:
    """The image in red, green and blue, white where it was transparent."""
    if image.mode == "I;16":  # which would be cut off, not scaled
        image = image.convert("I").point(lambda grey: grey * (1 / 256)).convert("L")
    if not image.has_transparency_data:
        return image if image.mode == "RGB" else image.convert("RGB")
    seen = image.convert("RGBA")
    white = Image.new("RGB", seen.size, WHITE)
    white.paste(seen, mask=seen.getchannel("A"))
    return white


def to_jpeg(picture: Image.Image, quality: int) -> bytes:
    """The picture as a file."""
    file = BytesIO()
    picture.save(file, "JPEG", quality=quality)
    return file.getvalue()


def to_png(picture: Image.Image) -> bytes:
    """The same without loss."""
    file = BytesIO()
    picture.save(file, LOSSLESS, compress_level=PNG_EFFORT)
    return file.getvalue()


def must(work: Callable[[], T]) -> T:
    """What the work gives, or the refusal of a photograph with which it cannot be done."""
    done = attempt(lambda: (work(),))
    if done is None:
        raise unreadable()
    return done[0]


def attempt(work: Callable[[], T]) -> T | None:
    """What the work gives, or None when it fails, in whatever way but one of ours.

    Hostile bytes make the library raise nearly anything: OSError, SyntaxError, struct.error, EOFError, KeyError,
    OverflowError, MemoryError; which of them is no part of its interface, and none of them is our mistake.
    """
    try:
        return work()
    except DulyError:
        raise
    except Exception:
        return None


def unreadable() -> InvalidArgument:
    """The refusal of what is no photograph, or a broken one."""
    return InvalidArgument("this is no photograph that we can read; send a complete JPEG, PNG or WEBP")


def too_many_pixels() -> InvalidArgument:
    """The refusal of a photograph whose header promises too much."""
    return InvalidArgument(
        f"the photograph has more than {MAX_PIXELS // 1_000_000} million pixels, or a side of more than "
        f"{MAX_SIDE_LENGTH}; make it smaller"
    )


def too_many_bytes() -> TooLarge:
    """The refusal of a file that is too large."""
    return TooLarge(f"the photograph has more than {MAX_PHOTO_BYTES // 1024**2} MiB; make it smaller")
