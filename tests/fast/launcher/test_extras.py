"""Optional parts: a request never installs one."""

import re
import subprocess

import pytest

from duly import extras
from duly.apps.ingest.ocr.engine import EngineConfig
from duly.apps.ingest.photographs import OcrRunner
from duly.errors import MissingExtra
from duly.executors.call import Call
from duly.launcher import ROOT
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
    monkeypatch.setattr(extras, "is_checkout", lambda: True)


@pytest.mark.usefixtures("lacking")
@pytest.mark.parametrize("extra", sorted(extras.MODULES))
def test_missing_extra_raises_an_error_with_the_install_command(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingExtra, match=rf"not installed: python3 -P .*launcher.py {extra}$"):
        extras.require(extra)
    monkeypatch.setattr(extras, "is_checkout", lambda: False)
    with pytest.raises(MissingExtra, match=rf"not installed: pip install 'duly\[{extra}\]'$"):
        extras.require(extra)
    with pytest.raises(MissingExtra, match="not installed: pip install"):
        extras.install(extra)


def test_only_what_an_operator_starts_can_install_an_extra() -> None:
    mention = re.compile(r"from duly\.extras import .*\binstall\b|\bextras\.install\b")
    files = (ROOT / "src" / "duly").rglob("*.py")
    assert {str(file.relative_to(ROOT / "src" / "duly")) for file in files if mention.search(file.read_text())} == {
        "apps/ingest/cli/ingest.py",
        "apps/posts/language_model.py",  # a setting chose it; when a worker starts
        "assembly.py",  # a bot has a token; when a worker starts
        "cli/people.py",
        "cli/serve.py",
        "cli/up.py",
        "telegram/cli.py",
    }


@pytest.mark.usefixtures("lacking")
async def test_uploaded_photograph_does_not_trigger_an_ocr_installation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def perform(_: Call) -> object:
        pytest.fail("it was looked at without an engine")

    monkeypatch.setattr("duly.apps.ingest.ocr.engine.find_spec", is_missing)
    with pytest.raises(MissingExtra, match="the extra 'ocr', which is not installed"):
        await OcrRunner(perform, EngineConfig()).recognise(b"")


@pytest.mark.usefixtures("lacking")
def test_apprise_url_of_a_user_does_not_trigger_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "apprise_asset", address.apprise_asset.__wrapped__)  # another test may have loaded it
    with pytest.raises(MissingExtra, match="the extra 'apprise', which is not installed"):
        address.validate_address("ntfys://host/topic")
