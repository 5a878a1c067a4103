"""duly with each extra in a clean environment: what it weighs, and that its first command works."""

from pathlib import Path

import pytest

from tools.packages import CASES, MAX_ENGINE_MB, build_wheel, measure


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", CASES)
def test_an_extra_works_alone_in_a_clean_environment(name: str, wheel: Path, server: str, tmp_path: Path) -> None:
    case = CASES[name]
    measurement = measure(case, tmp_path, wheel, server)
    assert case.expected in measurement.answer
    if not case.extras:
        assert measurement.megabytes <= MAX_ENGINE_MB
    for command, answer in measurement.refusals.items():
        assert "pip install 'duly[" in answer, command
