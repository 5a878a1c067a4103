"""What holds of a directory holds of a bucket."""

import pytest

from duly.errors import InvalidArgument
from duly.storage import ObjectStore
from duly.storage.base import MAX_NAME_LENGTH, MAX_PART_LENGTH

BAD_PATHS = ["", "/a", "a/", "a//b", "..", "a/../b", "a..b", ".", "a/./b"]
BAD_LETTERS = ["a b", "a\n", "ä", "a\\b", "a%2f", "a+b", "a#1"]
TOO_LONG = ["x" * (MAX_PART_LENGTH + 1), "x/" * (MAX_NAME_LENGTH // 2) + "x"]


@pytest.mark.parametrize("name", [*BAD_PATHS, *BAD_LETTERS, *TOO_LONG])
async def test_an_invalid_object_name_is_refused(objects: ObjectStore, name: str) -> None:
    for refused in (
        objects.put(name, b""),
        objects.get(name, 1),
        objects.exists(name),
        objects.copy(name, "a"),
        objects.copy("a", name),
        objects.remove(["a", name]),
    ):
        with pytest.raises(InvalidArgument, match="an object name has"):
            await refused
