"""Optional parts: a request never installs one."""

import subprocess

import pytest

from duly import extras
from duly.apps.ingest.ocr.engine import Equipment
from duly.apps.ingest.photographs import Eyes
from duly.errors import MissingExtra
from duly.executors.call import Call
from duly.outbox.channels.apprise import address


def is_missing(_: str) -> bool:
    """Say that nothing is there."""
    return False


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout without extras, in which nothing may be installed."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was installed")

    monkeypatch.setattr(subprocess, "run", refuse)
    monkeypatch.setattr(extras, "is_installed", is_missing)
    monkeypatch.setattr(extras, "in_checkout", lambda: True)


@pytest.mark.usefixtures("lacking")
@pytest.mark.parametrize("extra", sorted(extras.MODULES))
def test_a_missing_extra_is_an_error_that_names_the_command_and_nothing_is_installed(
    extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MissingExtra, match=rf"not installed: python3 -P .*launcher.py {extra}$"):
        extras.require(extra)
    monkeypatch.setattr(extras, "in_checkout", lambda: False)
    with pytest.raises(MissingExtra, match=rf"not installed: pip install 'duly\[{extra}\]'$"):
        extras.require(extra)
    with pytest.raises(MissingExtra, match="not installed: pip install"):
        extras.install(extra)


@pytest.mark.usefixtures("lacking")
async def test_a_photograph_that_somebody_sent_makes_no_worker_install_an_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def perform(_: Call) -> object:
        pytest.fail("it was looked at without an engine")

    monkeypatch.setattr("duly.apps.ingest.ocr.engine.find_spec", is_missing)
    with pytest.raises(MissingExtra, match="the extra 'ocr', which is not installed"):
        await Eyes(perform, Equipment()).look(b"")


@pytest.mark.usefixtures("lacking")
def test_an_address_that_somebody_gave_makes_nobody_install_apprise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "manners", address.manners.__wrapped__)  # another test may have loaded it
    with pytest.raises(MissingExtra, match="the extra 'apprise', which is not installed"):
        address.checked_address("ntfys://host/topic")
