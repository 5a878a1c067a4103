"""The demo's story on a database without a worker: it ends by saying which step did not come, and why."""

import time
from pathlib import Path

import pytest

from duly.launcher import ROOT
from duly.settings import Settings
from tools.demo import stage
from tools.demo.narrator import JsonNarrator
from tools.demo.story import run_story


async def test_a_demo_step_that_times_out_is_reported_with_the_last_state(
    duly_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stage, "STEP_SECONDS", 0.2)
    log = tmp_path / "demo.log"
    settings = Settings(DULY_HOME=str(tmp_path), OCR_IMAGE_SECONDS=0.1)  # type: ignore[call-arg]
    pictures = ROOT / "fixtures" / "demo"
    assert not await run_story(duly_database, settings, pictures, log, JsonNarrator("duly"), time.monotonic())
    output = capsys.readouterr().out
    assert "The demo stopped in chapter 1" in output
    assert "timed out after 0 s: " in output
    assert "Current state: " in output
    assert str(log) in output
