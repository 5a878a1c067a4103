"""The demo's story on a database where nobody works: it ends by saying which step did not come, and why."""

import time
from pathlib import Path

import pytest

from duly.launcher import ROOT
from duly.settings import Settings
from tools.demo import stage
from tools.demo.narrator import Recorder
from tools.demo.story import tell_story


async def test_a_step_that_does_not_come_is_named_with_what_was_seen(
    duly_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stage, "STEP_SECONDS", 0.2)
    log = tmp_path / "demo.log"
    settings = Settings(DULY_HOME=str(tmp_path), OCR_IMAGE_SECONDS=0.1)  # type: ignore[call-arg]
    pictures = ROOT / "fixtures" / "demo"
    assert not await tell_story(duly_database, settings, pictures, log, Recorder("duly"), time.monotonic())
    told = capsys.readouterr().out
    assert "The story ends here, in chapter 1" in told
    assert "waited 0 s for this: " in told
    assert "What is known: " in told
    assert str(log) in told
