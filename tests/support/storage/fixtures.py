"""A store of each kind: a directory, and a bucket."""

from pathlib import Path
from uuid import uuid4

import pytest

from duly.settings import Settings
from duly.storage import Objects, open_objects
from tests.support.storage.shelf import Shelf


@pytest.fixture(params=["directory", "bucket"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    """An empty store of each kind."""
    if request.param == "directory":
        return open_objects(Settings(DULY_HOME=tmp_path))  # type: ignore[call-arg]
    shelf: Shelf = request.getfixturevalue("shelf")
    return open_objects(shelf.settings(R2_KEY_PREFIX=uuid4().hex))
