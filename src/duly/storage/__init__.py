"""Objects: where images are kept, and how a photograph from a stranger is made safe.

    photograph --clean_photo-------> JPEG without metadata --put--> a directory of this machine, or a bucket
               --clean_screenshot--> the same, or a PNG

An object is some bytes under a name of ours. They are kept in a directory as long as no bucket is named; with
R2_BUCKET they are kept in a store that speaks S3. Whoever asks cannot tell the two apart: what was put is there for
good, what is put again is replaced as a whole, and what is removed twice is removed.

A photograph is decoded completely and written anew, so that nothing of the stranger's file is kept but what can be
seen: not where it was taken, not when, not with what.
"""

from duly.storage.base import Objects, open_objects
from duly.storage.photo import MAX_PHOTO_BYTES, MAX_PIXELS, Screenshot, clean_photo, clean_screenshot, small_photo

__all__ = [
    "MAX_PHOTO_BYTES",
    "MAX_PIXELS",
    "Objects",
    "Screenshot",
    "clean_photo",
    "clean_screenshot",
    "open_objects",
    "small_photo",
]
