"""An object store of each type: a directory and a bucket."""

from pathlib import Path
from uuid import uuid4

import pytest

from duly.settings import Settings
from duly.storage import ObjectStore, open_object_store
from tests.support.storage.s3_server import S3Server


@pytest.fixture(params=["directory", "bucket"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """An empty store of each type."""
    if request.param == "directory":
        return open_object_store(Settings(DULY_HOME=tmp_path))  # type: ignore[call-arg]
    s3_server: S3Server = request.getfixturevalue("s3_server")
    return open_object_store(s3_server.settings(R2_KEY_PREFIX=uuid4().hex))
