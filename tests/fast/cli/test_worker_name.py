"""The default name of a worker."""

import os

import pytest

from duly.cli.worker import default_worker_id
from duly.configuration.engine import MAX_WORKER_ID_LENGTH, is_worker_id
from duly.settings import load_settings


@pytest.mark.parametrize(
    ("hostname", "name"),
    [
        ("web-1", "web-1"),
        ("web/1\n", "web-1-"),
        ("", "worker"),
        ("  ", "worker"),
        ("x" * 300, "x" * (MAX_WORKER_ID_LENGTH - len(f"-{os.getpid()}"))),
    ],
)
def test_a_worker_is_named_after_its_host_and_process(hostname: str, name: str) -> None:
    created = default_worker_id(hostname)
    assert created == f"{name}-{os.getpid()}"
    assert is_worker_id(created)
    assert "/" not in created


def test_default_worker_id_is_that_of_the_contract() -> None:
    settings = load_settings()
    assert settings.worker_id == f"worker-{os.getpid()}"
    assert "worker_id" not in settings.model_fields_set


def test_explicit_worker_id_is_recorded_as_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_ID", "mine")
    settings = load_settings()
    assert (settings.worker_id, "worker_id" in settings.model_fields_set) == ("mine", True)
