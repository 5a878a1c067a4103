"""A store of each kind: a directory, and a bucket."""

from collections.abc import Generator
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest
from moto.server import ThreadedMotoServer

from duly.objects import Objects, open_objects
from duly.settings import Settings
from tests.objects.shelf import BUCKET, Shelf, make_key


@pytest.fixture(scope="session")
def shelf() -> Generator[Shelf, None, None]:
    """A server of this process's own, which lets nobody in without a key."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    httpx2.put(f"{endpoint}/{BUCKET}").raise_for_status()
    key_id, secret = make_key(endpoint)
    httpx2.post(f"{endpoint}/moto-api/reset-auth", content=b"0").raise_for_status()
    yield Shelf(endpoint, key_id, secret)
    httpx2.post(f"{endpoint}/moto-api/reset-auth", content=b"inf").raise_for_status()
    server.stop()


@pytest.fixture(params=["directory", "bucket"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    """An empty store of each kind."""
    if request.param == "directory":
        return open_objects(Settings(DULY_HOME=tmp_path))  # type: ignore[call-arg]
    shelf: Shelf = request.getfixturevalue("shelf")
    return open_objects(shelf.settings(R2_KEY_PREFIX=uuid4().hex))
