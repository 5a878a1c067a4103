"""Children: what counts as a row's own time."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from duly.kernel.outcome import Failed
from duly.kernel.work import Call, Where
from duly.worker.children import Children

LIMIT_SECONDS = 0.5
HEAVY = f"""
import sys, threading

pause = threading.Event().wait
if sys.argv[0].endswith("child.py"):
    pause({3 * LIMIT_SECONDS})


def say(word):
    return word


def dawdle():
    pause(60)
"""


async def test_importing_what_the_first_row_needs_is_not_its_own_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "heavy_to_import.py").write_text(HEAVY)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    heavy: Any = importlib.import_module("heavy_to_import")
    children = Children(1)
    async with children.borrow() as child:
        assert await child.perform(Call(heavy.say, ("hello",), Where.CHILD, timeout_seconds=LIMIT_SECONDS)) == "hello"
        late = await child.perform(Call(heavy.dawdle, (), Where.CHILD, timeout_seconds=LIMIT_SECONDS))
    assert late == Failed("TIMEOUT", f"took longer than {LIMIT_SECONDS:g} s")
    await children.close()
