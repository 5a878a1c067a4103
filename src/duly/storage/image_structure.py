"""Structure check of an image file before it is decoded, against decompression attacks.

A file of a few kilobytes can keep a decoder busy for hours and still be valid: a progressive JPEG may have a scan of
the full image for every 61 bytes, and a header may consist of millions of empty segments, each of them stored. No
camera writes such files, so files with too many segments or scans are refused. The count follows the decoders: it skips
exactly what they skip, so that nothing escapes it.
"""

import re
import struct

from duly.errors import InvalidArgument

MAX_PARTS = 20_000  # a PNG of 20 MiB in the usual chunks of 8 KiB has 2560
MAX_SCANS = 64  # ten are usual

JPEG = b"\xff\xd8"
MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # the others occur inside of image data
SCAN, END = 0xDA, 0xD9
BARE_MARKERS = {0x01, 0xD8, END}  # without a length

PNG = b"\x89PNG\r\n\x1a\n"
LAST_CHUNK = b"IEND"


def check_structure(data: bytes) -> None:
    """Raise InvalidArgument for a file with too many parts or scans; other formats are left to the decoder."""
    if data.startswith(JPEG):
        check_jpeg(data)
    elif data.startswith(PNG):
        check_png(data)


def check_jpeg(data: bytes) -> None:
    """Count the segments and scans up to the end of the first image; other data may follow."""
    offset, parts, scans = len(JPEG), 0, 0
    while found := MARKER.search(data, offset):
        marker = data[found.start() + 1]
        if marker == END and scans:
            return
        parts += 1 if scans else 1 + found.start() - offset  # before the image, decoders read garbage byte by byte
        scans += marker == SCAN
        if parts > MAX_PARTS or scans > MAX_SCANS:
            raise suspicious_structure_error()
        offset = found.end()
        if marker not in BARE_MARKERS:
            offset += int.from_bytes(data[offset : offset + 2], "big")


def check_png(data: bytes) -> None:
    """Count the chunks up to the last."""
    offset, parts = len(PNG), 0
    while offset + 8 <= len(data):
        length, chunk_type = struct.unpack_from(">I4s", data, offset)
        if chunk_type == LAST_CHUNK:
            return
        parts += 1
        if parts > MAX_PARTS:
            raise suspicious_structure_error()
        offset += 12 + length


def suspicious_structure_error() -> InvalidArgument:
    """Return the error for a file with too many parts or scans."""
    return InvalidArgument("the image file has an unusual structure; save it again as a JPEG and send that")
