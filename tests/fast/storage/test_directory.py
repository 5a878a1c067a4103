"""A directory keeps its objects through crashes, private to its owner."""

import asyncio
import os
import threading
from pathlib import Path
from stat import S_IMODE

import pytest
from obstore.store import LocalStore

from duly.errors import InvalidArgument, Misconfigured, Unavailable
from duly.settings import Settings
from duly.storage import ObjectStore, directory, open_object_store
from duly.storage.directory import Directory
from tests.support.processes import PYTHON, Program, plain_environment

WRITER = """
import asyncio, sys
from duly.storage import open_object_store
from duly.settings import Settings

async def write():
    objects = open_object_store(Settings(DULY_OBJECTS_DIR=sys.argv[1]))
    await objects.put("a", b"a" * 1_000_000)
    print("one is there", flush=True)
    while True:
        for letter in (b"a", b"b", b"c"):
            await objects.put("a", letter * 1_000_000)

asyncio.run(write())
"""


def opened(path: Path) -> ObjectStore:
    return open_object_store(Settings(DULY_OBJECTS_DIR=path))  # type: ignore[call-arg]


def files_under(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def test_without_a_bucket_objects_are_in_the_home_with_private_permissions(tmp_path: Path) -> None:
    open_object_store(Settings(DULY_HOME=tmp_path / "new" / "home"))  # type: ignore[call-arg]
    assert S_IMODE((tmp_path / "new" / "home" / "objects").stat().st_mode) == 0o700


async def test_objects_are_found_from_another_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    objects = opened(Path("a directory#1 %20"))
    monkeypatch.chdir("/")
    await objects.put("a/b", b"1")
    assert files_under(tmp_path) == {"a directory#1 %20/a/b"}


async def test_copies_leave_no_temporary_files(tmp_path: Path) -> None:
    objects = opened(tmp_path)
    await objects.put("a", b"1")
    for _ in range(3):
        await objects.copy("a", "b/c")
    assert files_under(tmp_path) == {"a", "b/c"}


async def test_put_syncs_the_bytes_before_the_name_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[set[str], bool]] = []

    def sync(*paths: Path) -> None:
        names = {str(path.relative_to(tmp_path)).partition("+")[0] for path in paths}
        synced.append((names, (tmp_path / "a" / "b").exists()))
        really_sync(*paths)

    really_sync = directory.sync
    monkeypatch.setattr(directory, "sync", sync)
    await opened(tmp_path).put("a/b", b"1")
    assert synced == [({"a/b"}, False), ({"a", "."}, True)]


async def test_interrupted_put_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*paths: Path) -> None:
        raise OSError(28, "No space left on device")

    objects = opened(tmp_path)
    await objects.put("a", b"old")
    monkeypatch.setattr(directory, "sync", fail)
    with pytest.raises(Unavailable, match="No space left"):
        await objects.put("a", b"new")
    assert files_under(tmp_path) == {"a"}
    assert await objects.get("a", 3) == b"old"


async def test_cancelled_put_leaves_the_complete_object_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, may_continue, ended = threading.Event(), threading.Event(), threading.Event()

    def sync(*paths: Path) -> None:
        if started.is_set():
            ended.set()
        started.set()
        may_continue.wait(10)

    monkeypatch.setattr(directory, "sync", sync)
    put = asyncio.create_task(opened(tmp_path).put("a", b"1"))
    await asyncio.to_thread(started.wait, 10)
    put.cancel()
    with pytest.raises(asyncio.CancelledError):
        await put
    assert "a" not in files_under(tmp_path)
    may_continue.set()
    await asyncio.to_thread(ended.wait, 10)
    assert files_under(tmp_path) == {"a"}


async def test_without_hard_links_the_file_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    objects = opened(tmp_path)
    await objects.put("a", b"1")
    assert await objects.copy("a", "b/c")
    assert await objects.get("b/c", 1) == b"1"
    assert files_under(tmp_path) == {"a", "b/c"}


async def test_killed_writer_leaves_a_complete_object(tmp_path: Path) -> None:
    with Program([*PYTHON, "-c", WRITER, tmp_path], environment=plain_environment()) as program:
        assert program.line() == "one is there"
        objects = opened(tmp_path)
        seen = [await objects.get("a", 1_000_000) for _ in range(20)]
        program.kill()
    for content in [*seen, await objects.get("a", 1_000_000)]:
        assert content in {letter * 1_000_000 for letter in (b"a", b"b", b"c")}


@pytest.mark.parametrize(("first", "second"), [("a", "a/b"), ("a/b", "a")])
async def test_object_name_that_is_a_parent_or_child_of_another_is_refused(
    tmp_path: Path, first: str, second: str
) -> None:
    objects = opened(tmp_path)
    await objects.put(first, b"1")
    await objects.put("c", b"2")
    with pytest.raises(InvalidArgument, match="parent or child"):
        await objects.put(second, b"2")
    with pytest.raises(InvalidArgument, match="parent or child"):
        await objects.copy("c", second)
    assert files_under(tmp_path) == {first, "c"}


def test_directory_that_cannot_be_created_is_refused_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "objects", Path("/proc/objects")):
        with pytest.raises(Misconfigured, match="DULY_OBJECTS_DIR") as refused:
            opened(path)
        assert str(path) in str(refused.value)


def test_unwritable_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path, mode: int) -> bool:
        return False

    monkeypatch.setattr(os, "access", denied)  # root may write everywhere
    with pytest.raises(Misconfigured, match="Permission denied"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("number", "expected"), [(13, Misconfigured), (30, Misconfigured), (28, Unavailable), (5, Unavailable)]
)
def test_operating_system_errors_are_mapped_to_duly_errors(
    tmp_path: Path, number: int, expected: type[Exception]
) -> None:
    backend = Directory(tmp_path, LocalStore(tmp_path))
    error = backend.to_duly_error(RuntimeError(f"Unable to open file: {os.strerror(number)} (os error {number})"), "a")
    assert type(error) is expected
    assert os.strerror(number) in str(error)
