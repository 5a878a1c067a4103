"""Damage an image as cameras and messengers do, at a level at which a person still reads all of it with certainty."""

import random
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from math import cos, tau
from statistics import NormalDist

from PIL import Image, ImageChops, ImageEnhance, ImageFilter

from tools.schedule_images.scene import Drawing

SMALLEST_AFTER_DOWNSCALE = 14  # pixels of text
DESKS = ("#3a332e", "#6b5a48", "#2d3338", "#8a8f94", "#c9bda8")
Encoded = tuple[bytes, str]  # the file and its suffix
Damage = Callable[[Drawing, random.Random], Encoded]


def to_png(image: Image.Image) -> Encoded:
    """Encode without loss."""
    file = BytesIO()
    image.save(file, "PNG", compress_level=6)
    return file.getvalue(), "png"


def to_jpeg(image: Image.Image, quality: int) -> Encoded:
    """Encode as a camera or a messenger does."""
    file = BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue(), "jpg"


def keep_clean(drawing: Drawing, _rng: random.Random) -> Encoded:
    """Leave the image as the device made it."""
    return to_png(drawing.image)


def compress(drawing: Drawing, rng: random.Random) -> Encoded:
    """Compress strongly."""
    return to_jpeg(drawing.image, rng.randint(15, 50))


def downscale(drawing: Drawing, rng: random.Random) -> Encoded:
    """Make the image smaller, as far as its smallest text allows."""
    scale = max(rng.uniform(0.45, 0.60), SMALLEST_AFTER_DOWNSCALE / drawing.smallest_text)
    image = drawing.image
    size = round(image.width * scale), round(image.height * scale)
    return to_jpeg(image.resize(size, Image.Resampling.LANCZOS), rng.randint(75, 90))


def add_noise(drawing: Drawing, rng: random.Random) -> Encoded:
    """Add the grain of a dark room."""
    image, normal = drawing.image, NormalDist(128, rng.uniform(12, 24))
    levels = [round(normal.inv_cdf((level + 0.5) / 256)) for level in range(256)]
    grain = Image.frombytes("L", image.size, rng.randbytes(image.width * image.height)).point(levels).convert("RGB")
    return to_jpeg(ImageChops.add(image, grain, offset=-128), rng.randint(70, 85))


def rotate(drawing: Drawing, rng: random.Random) -> Encoded:
    """Turn the image by up to four degrees."""
    angle = rng.choice((-1, 1)) * rng.uniform(0.8, 4.0)
    turned = drawing.image.rotate(angle, Image.Resampling.BICUBIC, expand=True, fillcolor=rng.choice(DESKS))
    return to_jpeg(turned, rng.randint(75, 90))


def photograph(drawing: Drawing, rng: random.Random) -> Encoded:
    """Photograph the image from the side, in uneven light."""
    image = drawing.image
    size = round(image.width * 1.1), round(image.height * 1.1)
    left, top, right, bottom = 0.0, 0.0, float(image.width), float(image.height)

    def away(length: int) -> float:
        return length * rng.uniform(0.01, 0.06)

    corners = [
        (left - away(image.width), top - away(image.height)),
        (right + away(image.width), top - away(image.height)),
        (right + away(image.width), bottom + away(image.height)),
        (left - away(image.width), bottom + away(image.height)),
    ]
    seen = image.transform(
        size,
        Image.Transform.PERSPECTIVE,
        perspective(size, corners),
        Image.Resampling.BICUBIC,
        fillcolor=rng.choice(DESKS),
    )
    darkest = rng.randint(135, 185)
    shade = Image.linear_gradient("L").point([darkest + (255 - darkest) * level // 255 for level in range(256)])
    turned = shade.rotate(rng.uniform(0, 360), Image.Resampling.BICUBIC, fillcolor=(darkest + 255) // 2)
    light = turned.crop((50, 50, 206, 206)).resize(size, Image.Resampling.BICUBIC)
    return to_jpeg(ImageChops.multiply(seen, light.convert("RGB")), rng.randint(70, 88))


def perspective(size: tuple[int, int], corners: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    """Return the coefficients that map a rectangle of this size to four corners (Heckbert 1989, square to quad)."""
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = corners
    dx1, dx2, sx = x1 - x2, x3 - x2, x0 - x1 + x2 - x3
    dy1, dy2, sy = y1 - y2, y3 - y2, y0 - y1 + y2 - y3
    scale = dx1 * dy2 - dx2 * dy1
    g, h = (sx * dy2 - dx2 * sy) / scale, (dx1 * sy - sx * dy1) / scale
    width, height = size
    return (
        (x1 - x0 + g * x1) / width, (x3 - x0 + h * x3) / height, x0,
        (y1 - y0 + g * y1) / width, (y3 - y0 + h * y3) / height, y0,
        g / width, h / height,
    )  # fmt: skip


def blur(drawing: Drawing, rng: random.Random) -> Encoded:
    """Put the image out of focus, by the size of its smallest text."""
    radius = drawing.smallest_text * rng.uniform(0.035, 0.055)
    return to_jpeg(drawing.image.filter(ImageFilter.GaussianBlur(radius)), rng.randint(75, 90))


def lower_contrast(drawing: Drawing, rng: random.Random) -> Encoded:
    """Pull all colours towards grey."""
    grey = Image.new("RGB", drawing.image.size, rng.choice(("#808080", "#b0aaa0", "#606468")))
    faded = Image.blend(grey, drawing.image, rng.uniform(0.42, 0.55))
    return to_jpeg(ImageEnhance.Color(faded).enhance(0.6), rng.randint(75, 90))


def add_glare(drawing: Drawing, rng: random.Random) -> Encoded:
    """Photograph a screen: moiré over all of it, and the reflection of a lamp."""
    image = drawing.image
    period = rng.uniform(5.0, 9.0)
    first, second = (
        grating(image.size, period * ratio, rng.uniform(-8, 8)) for ratio in (1.0, rng.uniform(1.05, 1.15))
    )
    seen = ImageChops.multiply(image, ImageChops.multiply(first, second).convert("RGB"))
    strength = rng.uniform(0.3, 0.45)
    lamp = Image.radial_gradient("L").point([round((255 - level) * strength) for level in range(256)])
    size = (
        round(image.width * rng.uniform(0.5, 0.9)),
        round(min(image.height, 1.5 * image.width) * rng.uniform(0.3, 0.6)),
    )
    glare = Image.new("L", image.size)
    corner = rng.randint(0, image.width - size[0]), rng.randint(0, image.height - size[1])
    glare.paste(lamp.resize(size, Image.Resampling.BICUBIC), corner)
    return to_jpeg(ImageChops.screen(seen, glare.convert("RGB")), rng.randint(75, 90))


def grating(size: tuple[int, int], period: float, angle: float) -> Image.Image:
    """Return stripes of this period, a little darker than white, at this angle."""
    side = round((size[0] ** 2 + size[1] ** 2) ** 0.5) + 4
    row = bytes(round(242 + 13 * cos(tau * x / period)) for x in range(side))
    stripes = Image.frombytes("L", (side, 1), row).resize((side, side), Image.Resampling.NEAREST)
    left, top = (side - size[0]) // 2, (side - size[1]) // 2
    turned = stripes.rotate(angle, Image.Resampling.BILINEAR, fillcolor=242)
    return turned.crop((left, top, left + size[0], top + size[1]))


DAMAGES: Mapping[str, Damage] = {
    "clean": keep_clean,
    "jpeg": compress,
    "downscale": downscale,
    "noise": add_noise,
    "rotation": rotate,
    "perspective": photograph,
    "blur": blur,
    "low_contrast": lower_contrast,
    "glare": add_glare,
}
