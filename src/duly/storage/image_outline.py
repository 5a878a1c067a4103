"""How a photograph's file is built, looked at before anybody decodes it.

A file of a few kilobytes can keep a decoder busy for hours without breaking a rule: a progressive JPEG may go over its
whole picture once for every 61 bytes, and a header may consist of millions of empty parts, each of them noted. No
camera writes such files, so they are refused by counting. The counting follows the decoders: what they pass over is
passed over here, so that nothing can hide from it.
"""

import re
import struct

from duly.errors import InvalidArgument

__all__ = ["MAX_PARTS", "MAX_SCANS", "check_outline"]

MAX_PARTS = 20_000  # 20 MiB of PNG in the usual parts of 8 KiB make 2560
MAX_SCANS = 64  # ten are usual

JPEG = b"\xff\xd8"
MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # the others occur between the bits of a picture
SCAN, END = 0xDA, 0xD9
BARE_MARKERS = {0x01, 0xD8, END}  # those that no length follows

PNG = b"\x89PNG\r\n\x1a\n"
LAST_CHUNK = b"IEND"


def check_outline(data: bytes) -> None:
    """Refuse a file made to keep a decoder busy; what is no photograph at all is left for the decoder to refuse."""
    if data.startswith(JPEG):
        check_jpeg(data)
    elif data.startswith(PNG):
        check_png(data)


def check_jpeg(data: bytes) -> None:
    """Count the parts and the scans up to the end of the first picture; there may be others, or a film, behind it."""
    place, parts, scans = len(JPEG), 0, 0
    while found := MARKER.search(data, place):
        marker = data[found.start() + 1]
        if marker == END and scans:
            return
        parts += 1 if scans else 1 + found.start() - place  # before the picture, rubbish is read byte by byte
        scans += marker == SCAN
        if parts > MAX_PARTS or scans > MAX_SCANS:
            raise built_to_harm()
        place = found.end()
        if marker not in BARE_MARKERS:
            place += int.from_bytes(data[place : place + 2], "big")


def check_png(data: bytes) -> None:
    """Count the chunks."""
    place, parts = len(PNG), 0
    while place + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, place)
        if kind == LAST_CHUNK:
            return
        parts += 1
        if parts > MAX_PARTS:
            raise built_to_harm()
        place += 12 + length


def built_to_harm() -> InvalidArgument:
    """The refusal, in words."""
    return InvalidArgument("this photograph is built as no camera builds one; save it anew as a JPEG and send that")
