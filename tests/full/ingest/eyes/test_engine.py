"""Real engines over pictures: the only tests here that read."""

import pytest

from duly.ingest.eyes.engine import Engine, RapidEngine
from duly.ingest.eyes.page import read_page
from duly.objects.photo import plain_photo
from tests.fast.ingest.eyes.test_engine import HAS_SWEDISH, engine
from tests.support.eyes.days import AFTER, picture, shows

__all__ = ["engine"]

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("name", ["after", "grid"])
def test_a_screen_is_read_completely(engine: Engine, name: str) -> None:
    image = plain_photo(picture(name))
    marks = engine.read(image)
    assert shows(read_page(marks, image.width, image.height, 2026), AFTER)
    assert any(mark.second for mark in marks) == HAS_SWEDISH


def test_rapidocr_looks_again_at_a_capital_whose_ring_it_cut_off() -> None:
    rapid = RapidEngine(None)
    image = plain_photo(picture("ring"))
    assert "Atgärdsmöte" in [mark.text for mark in rapid.find(image)], "else nothing is shown"
    assert "Åtgärdsmöte" in [mark.text for mark in rapid.read(image)]


def test_rapidocr_sees_a_ring_that_is_blurred_into_its_letter_and_none_on_a_bare_one() -> None:
    rapid = RapidEngine(None)
    image = plain_photo(picture("faint"))
    marks = rapid.find(image)
    assert {"Akning", "Gun Asbrink", "Asa Arvidsson", "Alva Afeldt"} <= {mark.text for mark in marks}
    assert [mark.text for mark in rapid.read(image) if any(letter.isalpha() for letter in mark.text)] == [
        "Omvårdnad",
        "Åkning",
        "Gun Åsbrink",
        "Orvar Äng",
        "Arvika",
        "Alem",
        "Arbetsplan",
        "Oljebyte",
        "Åsa Arvidsson",
        "Alva Åfeldt",
        "Askim",
        "Arlöv",
    ]
