"""Object storage for images, and sanitizing of uploaded photographs.

    photograph --clean_photo-------> JPEG without metadata --put--> a local directory, or an S3 bucket
               --clean_screenshot--> the same, or a PNG

An object is a sequence of bytes under a name. Objects are stored in a local directory unless R2_BUCKET names a bucket
of an S3-compatible store. Both behave alike: a put is durable and atomic, also when it replaces an object, and deleting
a missing object is no error.

A photograph is decoded completely and encoded again, so that nothing of the uploaded file is stored except its pixels:
no location, no time, no camera.
"""

from duly.storage.base import ObjectStore, open_object_store
from duly.storage.photo import MAX_PHOTO_BYTES, MAX_PIXELS, Screenshot, clean_photo, clean_screenshot, decode_thumbnail

__all__ = [
    "MAX_PHOTO_BYTES",
    "MAX_PIXELS",
    "ObjectStore",
    "Screenshot",
    "clean_photo",
    "clean_screenshot",
    "decode_thumbnail",
    "open_object_store",
]
