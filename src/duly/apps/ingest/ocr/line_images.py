"""Crop the lines of an image, and measure what the text alone does not show: strokes, strikethrough, truncation."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageOps, ImageStat

from duly.apps.ingest.ocr.text_box import Corners, Ink, Point, TextBox

if TYPE_CHECKING:
    from numpy.typing import NDArray

CROP_MARGIN = 0.22  # of the line height, around a cropped line
CROP_HEIGHT = 48  # pixels of a cropped line: what Tesseract reads best
MAX_CROP_WIDTH = 4000  # pixels of a cropped line
SECOND_PASS_STRETCH = 1.5  # how much wider a line is made for the second pass
MIN_TEXT_CONTRAST = 12  # of 255 grey levels: a line with less has no text
STRIKETHROUGH_BAND = (0.38, 0.64)  # of the height of a cropped line, from the top: where a strikethrough runs
BEYOND_TEXT = (0.2, 0.45)  # of the line height, right of a text: where its background continues, or the page has ended
AFTER_TEXT = (0.12, 1.1)  # of the line height, right of a text: where more text would be
MIN_INK_SHARE = 0.04  # of the pixels there: less is noise
TEXT_LEVEL = 0.55  # of the 97th percentile of the text's own contrast: what counts as ink there
MIN_BACKGROUND_DIFFERENCE = 22  # of 255 grey levels, between two backgrounds that are not the same
SAMPLE_HEIGHT = 24  # pixels of an area that is compared with another
MAX_DARK_MEAN = 110  # of 255 grey levels: an image with a lower mean is light text on a dark background


# Cropping -------------------------------------------------------------------------------------------------------------


def crop_line(box: TextBox, grey: Image.Image) -> Image.Image:
    """Return the part of an image that a box covers, upright, with a margin, and dark on light."""
    corners = with_margin(box)
    aspect = (box.width / max(box.height, 1.0) + 2 * CROP_MARGIN) / (1 + 2 * CROP_MARGIN)
    width = round(min(MAX_CROP_WIDTH, max(1.0, aspect) * CROP_HEIGHT))
    size = (width, CROP_HEIGHT)
    return to_dark_on_light(grey.transform(size, Image.Transform.QUAD, to_quad(corners), Image.Resampling.BICUBIC))


def stretch_line(line: Image.Image) -> Image.Image:
    """Return a line with wider letters: their diacritics then span more time steps of the recogniser."""
    return line.resize((round(line.width * SECOND_PASS_STRETCH), line.height), Image.Resampling.BICUBIC)


def with_margin(box: TextBox) -> Corners:
    """Return the corners of a box, moved outwards along its own sides."""
    upper_left, upper_right, lower_right, lower_left = box.corners
    along = CROP_MARGIN * box.height / max(box.width, 1.0)

    def move_out(corner: Point, beside: Point, across: Point) -> Point:
        return (
            corner[0] + (corner[0] - beside[0]) * along + (corner[0] - across[0]) * CROP_MARGIN,
            corner[1] + (corner[1] - beside[1]) * along + (corner[1] - across[1]) * CROP_MARGIN,
        )

    return (
        move_out(upper_left, upper_right, lower_left),
        move_out(upper_right, upper_left, lower_right),
        move_out(lower_right, lower_left, upper_right),
        move_out(lower_left, lower_right, upper_left),
    )


def corners_between(box: TextBox, first: float, last: float) -> Corners:
    """Return the corners of a horizontal part of a box, where 0 is its left end and 1 its right end."""
    upper_left, upper_right, lower_right, lower_left = box.corners

    def interpolate(start: Point, end: Point, share: float) -> Point:
        return start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share

    return (
        interpolate(upper_left, upper_right, first),
        interpolate(upper_left, upper_right, last),
        interpolate(lower_left, lower_right, last),
        interpolate(lower_left, lower_right, first),
    )


def to_quad(corners: Corners) -> tuple[float, ...]:
    """Return corners in the order of PIL's QUAD transform."""
    upper_left, upper_right, lower_right, lower_left = corners
    return (*upper_left, *lower_left, *lower_right, *upper_right)


def to_dark_on_light(grey: Image.Image) -> Image.Image:
    """Return the image with dark text on a light background, inverted if needed."""
    return ImageOps.invert(grey) if ImageStat.Stat(grey).mean[0] < MAX_DARK_MEAN else grey


# Measuring ------------------------------------------------------------------------------------------------------------


def measure_ink(line: Image.Image, height: float) -> Ink | None:
    """Measure the strokes of a cropped line, whose text is this high in the image; None if there are none."""
    import numpy as np

    pixels = np.asarray(line, dtype=np.float32)
    background, darkest = float(np.median(pixels)), float(np.percentile(pixels, 2))
    if background - darkest < MIN_TEXT_CONTRAST:
        return None
    margin = round(CROP_HEIGHT * CROP_MARGIN / (1 + 2 * CROP_MARGIN))
    is_ink = pixels[:, margin:-margin] < (background + darkest) / 2
    stroke_starts = is_ink & ~np.pad(is_ink, ((0, 0), (1, 0)))[:, :-1]
    scale = height * (1 + 2 * CROP_MARGIN) / CROP_HEIGHT
    stroke_width = float(is_ink.sum()) / max(1, int(stroke_starts.sum())) * scale
    band = is_ink[round(CROP_HEIGHT * STRIKETHROUGH_BAND[0]) : round(CROP_HEIGHT * STRIKETHROUGH_BAND[1])]
    strikethrough = float(band.mean(axis=1).max()) if band.shape[1] > CROP_HEIGHT else 0.0
    return Ink((background - darkest) / 255, stroke_width, strikethrough)


def ends_at_page_edge(box: TextBox, grey: Image.Image, background: float) -> bool:
    """Return whether the page ends where a text ends: what is beyond has neither its background nor the image's."""
    import numpy as np

    height_share = box.height / max(box.width, 1.0)
    ends = corners_between(box, 0.0, 1.0 + BEYOND_TEXT[1] * height_share)[1:3]
    if not all(0 <= x < grey.width and 0 <= y < grey.height for x, y in ends):
        return True  # the image itself ends there
    near = sample(grey, corners_between(box, max(0.0, 1.0 - 4 * height_share), 1.0), 96)
    after = corners_between(box, 1.0 + BEYOND_TEXT[0] * height_share, 1.0 + BEYOND_TEXT[1] * height_share)
    beyond = sample(grey, after, 8)
    level = float(np.median(beyond))
    is_other = all(abs(level - each) > MIN_BACKGROUND_DIFFERENCE for each in (float(np.median(near)), background))
    return is_other and float(beyond.std()) < MIN_BACKGROUND_DIFFERENCE / 2


def has_unread_text_after(box: TextBox, grey: Image.Image, boxes: Sequence[TextBox]) -> bool:
    """Return whether something follows a text that looks like more of it and was not detected: a number at its end.

    Bars and chips reach above and below the line; letters do not.
    """
    import numpy as np

    height_share = box.height / max(box.width, 1.0)
    after = corners_between(box, 1.0 + AFTER_TEXT[0] * height_share, 1.0 + AFTER_TEXT[1] * height_share)
    (left, top), (right, bottom) = map(min, zip(*after, strict=True)), map(max, zip(*after, strict=True))
    if left < 0 or top < 0 or right >= grey.width or bottom >= grey.height:
        return False
    if any(other is not box and covers(other, left, right + box.height / 5, (top + bottom) / 2) for other in boxes):
        return False
    near = sample(grey, corners_between(box, max(0.0, 1.0 - 4 * height_share), 1.0), 96)
    beyond = sample(grey, after, 32)
    background = np.median(near)
    is_ink = np.abs(beyond - background) > np.percentile(np.abs(near - background), 97) * TEXT_LEVEL
    return bool(is_ink[4:-4].mean() > MIN_INK_SHARE and is_ink[[0, 1, -2, -1]].mean() < MIN_INK_SHARE / 2)


def sample(grey: Image.Image, corners: Corners, width: int) -> "NDArray[Any]":
    """Return the grey levels between some corners, as an array of this width."""
    import numpy as np

    size = (width, SAMPLE_HEIGHT)
    return np.asarray(
        grey.transform(size, Image.Transform.QUAD, to_quad(corners), Image.Resampling.BILINEAR), np.float32
    )


def covers(box: TextBox, left: float, right: float, y: float) -> bool:
    """Return whether a box covers a part of a horizontal stretch."""
    xs, ys = zip(*box.corners, strict=True)
    return min(xs) < right and max(xs) > left and min(ys) < y < max(ys)
