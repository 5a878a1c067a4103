"""What holds of a directory holds of a bucket."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import InvalidArgument, NotFound, TooLarge
from duly.storage import ObjectStore
from duly.storage.base import MAX_PART_LENGTH, check_name

NAMES = ["a", "posts/2026-01-31/anna:1@example.com_small.jpg", ".hidden", "a-b/c.d/E_F", "x" * MAX_PART_LENGTH]
LARGE = bytes(range(256)) * 4096 * 6  # 6 MiB, which the library would send in parts


@pytest.mark.parametrize("name", NAMES)
async def test_get_returns_the_bytes_that_were_put(objects: ObjectStore, name: str) -> None:
    await objects.put(name, b"picture")
    assert await objects.get(name, 7) == b"picture"
    assert await objects.exists(name)


@pytest.mark.parametrize("data", [b"", LARGE], ids=["nothing", "much"])
async def test_empty_and_large_objects_are_stored(objects: ObjectStore, data: bytes) -> None:
    await objects.put("a", data)
    assert await objects.get("a", len(data)) == data
    assert await objects.copy("a", "b")
    assert await objects.get("b", len(data)) == data


async def test_a_second_put_replaces_the_first(objects: ObjectStore) -> None:
    await objects.put("a", b"a longer one")
    await objects.put("a", b"short")
    assert await objects.get("a", 100) == b"short"


async def test_missing_object_is_not_found(objects: ObjectStore) -> None:
    with pytest.raises(NotFound, match="'none/such'"):
        await objects.get("none/such", 100)
    assert not await objects.exists("none/such")


async def test_name_under_another_object_does_not_exist(objects: ObjectStore) -> None:
    await objects.put("a", b"1")
    assert not await objects.exists("a/b")
    assert not await objects.copy("a/b", "c")
    await objects.remove(["a/b"])
    with pytest.raises(NotFound):
        await objects.get("a/b", 100)


async def test_folder_of_an_object_is_not_an_object(objects: ObjectStore) -> None:
    await objects.put("a/b", b"1")
    assert not await objects.exists("a")
    assert not await objects.copy("a", "c")
    await objects.remove(["a"])
    assert await objects.exists("a/b")
    with pytest.raises(NotFound):
        await objects.get("a", 100)


async def test_get_refuses_an_object_over_the_size_limit(objects: ObjectStore) -> None:
    await objects.put("a", b"12345678")
    with pytest.raises(TooLarge, match="8 bytes, more than 7"):
        await objects.get("a", 7)


async def test_copy_is_independent_of_its_source(objects: ObjectStore) -> None:
    await objects.put("a", b"1")
    assert await objects.copy("a", "deep/in/b")
    await objects.put("a", b"2")
    assert await objects.get("deep/in/b", 100) == b"1"
    await objects.remove(["a"])
    assert await objects.get("deep/in/b", 100) == b"1"


async def test_copy_replaces_its_target_and_can_be_repeated(objects: ObjectStore) -> None:
    await objects.put("a", b"new")
    await objects.put("b", b"old")
    for _ in range(3):
        assert await objects.copy("a", "b")
        assert await objects.get("b", 100) == b"new"


async def test_copy_of_a_missing_object_returns_false_and_keeps_the_target(objects: ObjectStore) -> None:
    await objects.put("b", b"old")
    assert not await objects.copy("a", "b")
    assert await objects.get("b", 100) == b"old"


async def test_a_copy_onto_itself_changes_nothing(objects: ObjectStore) -> None:
    assert not await objects.copy("a", "a")
    await objects.put("a", b"1")
    assert await objects.copy("a", "a")
    assert await objects.get("a", 100) == b"1"


async def test_remove_deletes_objects_and_ignores_missing_ones(objects: ObjectStore) -> None:
    names = [f"many/{number}" for number in range(23)]
    await asyncio.gather(*(objects.put(name, b"1") for name in names))
    await objects.put("kept", b"1")
    await objects.remove(["none", *names, "many/1", "none/such"])
    await objects.remove(names)
    await objects.remove([])
    assert not any([await objects.exists(name) for name in names])
    assert await objects.exists("kept")


async def test_reader_never_sees_a_partial_object(objects: ObjectStore) -> None:
    contents = [letter * 500_000 for letter in (b"a", b"b")]
    await objects.put("a", contents[0])

    async def write() -> None:
        for number in range(10):
            await objects.put("a", contents[number % 2])

    async def read() -> None:
        for _ in range(10):
            assert await objects.get("a", 500_000) in contents

    await asyncio.gather(write(), write(), read(), read())


@given(st.text(max_size=30) | st.text("ab./:@-_", max_size=12))
def test_accepted_object_name_has_no_path_traversal(name: str) -> None:
    try:
        check_name(name)
    except InvalidArgument:
        return
    assert name.isascii()
    assert not name.startswith("/")
    assert not {"", ".", ".."} & set(name.split("/"))
