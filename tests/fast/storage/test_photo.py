"""A photograph is written anew, and only what can be seen of it is kept."""

import struct
import threading
import warnings
from io import BytesIO
from typing import cast

import pytest
from PIL import Image, ImageChops

from duly.errors import InvalidArgument, TooLarge
from duly.storage import MAX_PHOTO_BYTES, clean_photo, clean_screenshot, decode_thumbnail, photo
from tests.support.storage.pictures import (
    SECRETS,
    chunk,
    gradient,
    photo_with_metadata,
    png_with_header,
    profile,
    written,
)

IMAGE_FORMATS = ("JPEG", "PNG", "WEBP")
MODES = [
    *(("JPEG", mode) for mode in ("L", "RGB", "CMYK")),
    *(("PNG", mode) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")),
    *(("WEBP", mode) for mode in ("RGB", "RGBA")),
]
RED, GREEN, WHITE = (255, 0, 0), (0, 255, 0), (255, 255, 255)


def opened(data: bytes) -> Image.Image:
    image = Image.open(BytesIO(data))
    image.load()
    return image


def differ(one: Image.Image, other: Image.Image) -> int:
    """By how much two pictures differ where they differ most."""
    extrema = ImageChops.difference(one.convert("RGB"), other.convert("RGB")).getextrema()
    return max(high for _, high in extrema)  # type: ignore[misc]


def near(colour: object, target: tuple[int, ...]) -> bool:
    """Is this the colour, as far as a JPEG keeps it?"""
    return all(abs(one - other) < 12 for one, other in zip(cast("tuple[int, ...]", colour), target, strict=True))


@pytest.mark.parametrize("image_format", IMAGE_FORMATS)
def test_a_photograph_becomes_a_jpeg_that_looks_the_same(image_format: str) -> None:
    cleaned = opened(clean_photo(written(gradient(), image_format)))
    assert (cleaned.format, cleaned.mode, cleaned.size) == ("JPEG", "RGB", (64, 48))
    assert differ(cleaned, gradient()) < 30


@pytest.mark.parametrize("image_format", IMAGE_FORMATS)
def test_cleaning_a_photograph_is_deterministic_and_repeatable(image_format: str) -> None:
    data = photo_with_metadata(image_format)
    once = clean_photo(data)
    assert clean_photo(data) == once
    assert opened(clean_photo(once)).size == opened(once).size


@pytest.mark.parametrize("image_format", IMAGE_FORMATS)
def test_cleaned_photograph_contains_no_metadata(image_format: str) -> None:
    data = photo_with_metadata(image_format)
    assert b"Exif" in data or b"eXIf" in data or b"EXIF" in data
    cleaned = clean_photo(data)
    for secret in (*SECRETS, b"Exif", b"http://ns.adobe.com", b"ICC_PROFILE", b"Photoshop", b"SECRET"):
        assert secret not in cleaned
    assert markers_of(cleaned) <= {0xE0, 0xDB, 0xC0, 0xC4, 0xDA}
    image = opened(cleaned)
    assert not image.getexif()
    assert not {"comment", "exif", "xmp", "icc_profile", "photoshop"} & set(image.info)


def markers_of(data: bytes) -> set[int]:
    """The kinds of parts that a JPEG has, up to its picture."""
    offset, found = 2, set[int]()
    while data[offset + 1] != 0xDA:
        found.add(data[offset + 1])
        offset += 2 + int.from_bytes(data[offset + 2 : offset + 4], "big")
    return found


def test_test_photograph_contains_a_gps_location() -> None:
    offset = opened(photo_with_metadata("JPEG")).getexif().get_ifd(0x8825)
    assert offset[2] == (52, 31, 12)


@pytest.mark.parametrize("image_format", IMAGE_FORMATS)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_cleaned_photograph_is_rotated_upright(image_format: str, orientation: int) -> None:
    upright = Image.new("RGB", (64, 32), WHITE)
    upright.paste(RED, (0, 0, 32, 16))  # above, on the left
    upright.paste(GREEN, (0, 16, 32, 32))  # below, on the left
    lying = lay(upright, orientation)
    for image in (
        opened(clean_photo(photo_with_metadata(image_format, orientation, lying))),
        small(photo_with_metadata(image_format, orientation, lying)),
    ):
        assert image.size == (64, 32)
        assert near(image.getpixel((8, 8)), RED)
        assert near(image.getpixel((8, 24)), GREEN)
        assert near(image.getpixel((56, 8)), WHITE)


def lay(image: Image.Image, orientation: int) -> Image.Image:
    """The image as a camera held so would have seen it."""
    undone = {6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}
    turn = undone.get(orientation, photo.TRANSPOSITIONS.get(orientation))
    return image if turn is None else image.transpose(turn)


def small(data: bytes) -> Image.Image:
    return decode_thumbnail(data, 64)


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_invalid_orientation_is_ignored(orientation: int) -> None:
    assert opened(clean_photo(photo_with_metadata("JPEG", orientation))).size == (64, 48)


@pytest.mark.parametrize(("image_format", "mode"), MODES)
def test_every_color_mode_is_read(image_format: str, mode: str) -> None:
    image = grey_of_sixteen_bits() if mode == "I;16" else gradient(mode=mode)
    expected = gradient(mode="L") if mode == "I;16" else image.convert("RGB")
    cleaned = opened(clean_photo(written(image, image_format)))
    assert cleaned.mode == "RGB"
    assert differ(cleaned.reduce(8), expected.convert("RGB").reduce(8)) < 24
    assert decode_thumbnail(written(image, image_format)).mode == "RGB"


def grey_of_sixteen_bits() -> Image.Image:
    grey = gradient(mode="L")
    wide = b"".join(struct.pack("<H", value * 257) for value in grey.tobytes())
    return Image.frombytes("I;16", grey.size, wide)


@pytest.mark.parametrize(("image_format", "mode"), [("PNG", "RGBA"), ("PNG", "LA"), ("PNG", "P"), ("WEBP", "RGBA")])
def test_transparent_pixels_become_white(image_format: str, mode: str) -> None:
    image = Image.new("RGBA", (32, 32), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (0, 0, 16, 32))
    data = written(image.convert(mode), image_format, **({"lossless": True} if image_format == "WEBP" else {}))
    for seen in (opened(clean_photo(data)), decode_thumbnail(data)):
        assert near(seen.getpixel((24, 16)), WHITE)
        assert near(seen.getpixel((4, 16)), (0, 0, 0))


def test_transparent_color_key_becomes_white() -> None:
    image = Image.new("RGB", (32, 32), RED)
    image.paste(GREEN, (0, 0, 16, 32))
    cleaned = opened(clean_photo(written(image, "PNG", transparency=RED)))
    assert near(cleaned.getpixel((24, 16)), WHITE)
    assert near(cleaned.getpixel((4, 16)), GREEN)


def test_colors_of_an_icc_profile_are_converted() -> None:
    swapped = swapped_profile()
    image = Image.new("RGB", (32, 32), RED)
    assert near(opened(clean_photo(written(image, "PNG", icc_profile=swapped))).getpixel((8, 8)), GREEN)


def swapped_profile() -> bytes:
    """The common profile with red and green exchanged, under another name."""
    exchanged = profile().replace(b"rXYZ", b"????").replace(b"gXYZ", b"rXYZ").replace(b"????", b"gXYZ")
    return exchanged.replace("sRGB".encode("utf-16-be"), "oRGB".encode("utf-16-be")).replace(b"sRGB", b"oRGB")


@pytest.mark.parametrize("no_profile", [b"no profile", b"\0" * 100_000, profile()[:300]])
def test_invalid_icc_profile_is_ignored(no_profile: bytes) -> None:
    cleaned = clean_photo(written(gradient(), "PNG", icc_profile=no_profile))
    assert differ(opened(cleaned), gradient()) < 30


@pytest.mark.parametrize("image_format", ["PNG", "WEBP"])
def test_first_frame_of_an_animation_is_used(image_format: str) -> None:
    frames = [Image.new("RGB", (32, 32), colour) for colour in (RED, GREEN)]
    data = written(frames[0], image_format, save_all=True, append_images=frames[1:], duration=100)
    assert near(opened(clean_photo(data)).getpixel((8, 8)), RED)
    assert near(decode_thumbnail(data).getpixel((8, 8)), RED)


def test_first_picture_of_a_multi_picture_jpeg_is_used() -> None:
    frames = [Image.new("RGB", (32, 32), colour) for colour in (RED, GREEN)]
    data = written(frames[0], "MPO", save_all=True, append_images=frames[1:])
    assert near(opened(clean_photo(data)).getpixel((8, 8)), RED)


@pytest.mark.parametrize("image_format", IMAGE_FORMATS)
@pytest.mark.parametrize("size", [1, 16, 128])
def test_thumbnail_is_small_rgb_and_in_proportion(image_format: str, size: int) -> None:
    image = decode_thumbnail(photo_with_metadata(image_format, image=gradient(400, 200)), size)
    assert image.size == (size, max(1, size // 2))
    assert image.mode == "RGB"
    assert type(image) is Image.Image
    assert not image.info
    assert not image.getexif()


def test_thumbnail_of_a_small_photograph_is_not_enlarged() -> None:
    assert decode_thumbnail(written(gradient(20, 10))).size == (20, 10)


def test_photographs_are_limited_to_20_mib() -> None:
    data = written(gradient())
    full = data + b"\0" * (MAX_PHOTO_BYTES - len(data))
    assert opened(clean_photo(full)).size == (64, 48)
    for read in (clean_photo, decode_thumbnail):
        with pytest.raises(TooLarge, match="20 MiB"):
            read(full + b"\0")


def test_cleaned_photograph_never_exceeds_the_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = Image.effect_noise((400, 400), 200).convert("RGB")
    data = written(noise, quality=30)
    monkeypatch.setattr(photo, "MAX_PHOTO_BYTES", len(data) * 2)
    assert len(written(noise, quality=88)) > len(data) * 2
    assert len(clean_photo(data)) <= len(data) * 2
    monkeypatch.setattr(photo, "MAX_PHOTO_BYTES", len(data))
    with pytest.raises(TooLarge):
        clean_photo(data)


def test_warnings_of_the_library_are_silenced() -> None:
    broken_exif = written(gradient(), exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    odd_animation = png_with_header(8, 8, chunk(b"acTL", struct.pack(">II", 0, 0)))
    many_pixels = png_with_header(10_000, 10_000)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        for data in (broken_exif, odd_animation, many_pixels):
            for read in (clean_photo, decode_thumbnail):
                try:
                    read(data)
                except InvalidArgument:
                    continue
        assert list(warnings.filters) == before
    assert caught == []


def test_photographs_can_be_cleaned_in_several_threads() -> None:
    results: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: results.append(clean_photo(photo_with_metadata("JPEG")))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert len(set(results)) == 1


# A picture of a screen, to be read later ------------------------------------------------------------------------------


@pytest.mark.parametrize("image_format", IMAGE_FORMATS)
def test_png_screenshot_stays_a_png_and_others_become_jpeg(image_format: str) -> None:
    cleaned = clean_screenshot(written(gradient(), image_format))
    image = opened(cleaned.data)
    assert (cleaned.suffix, image.format) == (("png", "PNG") if image_format == "PNG" else ("jpg", "JPEG"))
    assert (image.mode, image.size) == ("RGB", (64, 48))
    if image_format != "PNG":
        assert cleaned.data == clean_photo(written(gradient(), image_format))


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB"])
def test_cleaned_png_keeps_every_pixel(mode: str) -> None:
    image = gradient(mode=mode)
    cleaned = opened(clean_screenshot(written(image, "PNG")).data)
    assert cleaned.tobytes() == image.convert("RGB").tobytes()
    again = clean_screenshot(written(cleaned, "PNG"))
    assert opened(again.data).tobytes() == cleaned.tobytes()


@pytest.mark.parametrize("image_format", IMAGE_FORMATS)
def test_cleaned_screenshot_contains_no_metadata(image_format: str) -> None:
    cleaned = clean_screenshot(photo_with_metadata(image_format)).data
    for secret in (*SECRETS, b"Exif", b"eXIf", b"iTXt", b"tEXt", b"zTXt", b"iCCP", b"tIME", b"http://ns.adobe.com"):
        assert secret not in cleaned
    image = opened(cleaned)
    assert not image.getexif()
    assert not {"comment", "exif", "xmp", "icc_profile", "photoshop", "Comment"} & set(image.info)


def test_png_screenshot_is_flattened_on_white_and_rotated_upright() -> None:
    clear = Image.new("RGBA", (4, 2), (255, 0, 0, 0))
    assert opened(clean_screenshot(written(clear, "PNG")).data).getpixel((0, 0)) == WHITE
    assert opened(clean_screenshot(photo_with_metadata("PNG", orientation=6)).data).size == (48, 64)


def test_png_that_would_be_too_large_when_encoded_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = written(gradient(), "PNG")
    monkeypatch.setattr(photo, "MAX_PHOTO_BYTES", len(data))
    monkeypatch.setattr(photo, "PNG_COMPRESS_LEVEL", 0)
    with pytest.raises(TooLarge, match="send a JPEG"):
        clean_screenshot(data)


@pytest.mark.parametrize("data", [b"", b"GIF89a", written(gradient(), "PNG")[:-30]])
def test_invalid_image_is_refused_as_a_screenshot(data: bytes) -> None:
    with pytest.raises(InvalidArgument):
        clean_screenshot(data)
    with pytest.raises(TooLarge):
        clean_screenshot(bytes(MAX_PHOTO_BYTES + 1))
