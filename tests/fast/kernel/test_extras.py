"""Optional parts: a request never installs one."""

import subprocess

import pytest

from duly import extras
from duly.errors import MissingExtra
from duly.ingest.eyes.engine import must_have_engine


def is_missing(_: str) -> bool:
    """Say that nothing is there."""
    return False


def fail(extra: str) -> None:
    """Say that something was installed that must not be."""
    pytest.fail(f"{extra} was installed")


@pytest.mark.parametrize("extra", sorted(extras.MODULES))
def test_a_missing_extra_is_an_error_that_names_the_command_and_nothing_is_installed(
    extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was installed")

    monkeypatch.setattr(subprocess, "run", refuse)
    monkeypatch.setattr(extras, "is_installed", is_missing)
    monkeypatch.setattr(extras, "in_checkout", lambda: True)
    with pytest.raises(MissingExtra, match=rf"not installed: python3 -P .*launcher.py {extra}$"):
        extras.require(extra)
    monkeypatch.setattr(extras, "in_checkout", lambda: False)
    with pytest.raises(MissingExtra, match=rf"not installed: pip install 'duly\[{extra}\]'$"):
        extras.require(extra)
    with pytest.raises(MissingExtra, match="not installed: pip install"):
        extras.install(extra)


def test_a_photograph_that_somebody_sent_makes_no_worker_install_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.ingest.eyes.engine.find_spec", is_missing)
    monkeypatch.setattr(extras, "is_installed", is_missing)
    monkeypatch.setattr(extras, "install", fail)
    with pytest.raises(MissingExtra, match="the extra 'ocr', which is not installed"):
        must_have_engine("auto")
