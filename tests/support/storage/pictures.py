"""Images for tests: with private metadata, and with forged headers."""

import struct
import zlib
from io import BytesIO

from PIL import Image, ImageCms
from PIL.PngImagePlugin import PngInfo
from PIL.TiffImagePlugin import IFDRational

SECRETS = (b"SECRET-CAMERA", b"SECRET-XMP", b"SECRET-COMMENT", b"SECRET-TEXT", b"SECRET-ZTXT")
GPS, MAKE, COMMENT_OF_USER, PHOTO_DETAILS = 0x8825, 0x010F, 0x9286, 0x8769
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def gradient(width: int = 64, height: int = 48, mode: str = "RGB") -> Image.Image:
    """Return an image with a gradient."""
    image = Image.linear_gradient("L").resize((width, height))
    bands = (image, image.transpose(Image.Transpose.ROTATE_180), Image.new("L", (width, height), 90))
    return Image.merge("RGB", bands).convert(mode)


def written(image: Image.Image, kind: str = "JPEG", **options: object) -> bytes:
    """Encode an image as a file."""
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def photo_with_metadata(kind: str, orientation: int = 1, image: Image.Image | None = None) -> bytes:
    """Return a photograph with location, camera and comments in its metadata."""
    exif = Image.Exif()
    exif[MAKE] = "SECRET-CAMERA"
    exif[0x0112] = orientation
    exif.get_ifd(PHOTO_DETAILS)[COMMENT_OF_USER] = "SECRET-COMMENT"
    location = exif.get_ifd(GPS)
    location[1], location[3] = "N", "E"
    location[2] = location[4] = (IFDRational(52), IFDRational(31), IFDRational(12))
    text = PngInfo()
    text.add_text("Comment", "SECRET-TEXT")
    text.add_text("More", "SECRET-ZTXT", zip=True)
    more: dict[str, dict[str, object]] = {
        "JPEG": {"comment": b"SECRET-COMMENT", "xmp": b"<x>SECRET-XMP</x>"},
        "PNG": {"pnginfo": text},
        "WEBP": {"xmp": b"<x>SECRET-XMP</x>", "lossless": True},
    }
    return written(image or gradient(), kind, exif=exif, icc_profile=profile(), **more[kind])


def profile() -> bytes:
    """Return an explicit sRGB profile."""
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()  # type: ignore[no-untyped-call]


def chunk(kind: bytes, data: bytes = b"") -> bytes:
    """Encode a PNG chunk."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_with_header(width: int, height: int, *parts: bytes, bits: int = 8) -> bytes:
    """Return a grey PNG with this size in its header and these chunks."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0))
    return SIGNATURE + header + b"".join(parts) + chunk(b"IEND")
