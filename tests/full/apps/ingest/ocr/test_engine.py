"""Real engines over pictures: the only tests here that read."""

from collections.abc import Sequence

import pytest
from PIL import Image

from duly.apps.ingest.ocr.engine import Engine, RapidEngine
from duly.apps.ingest.ocr.lines import sheet_of
from duly.apps.ingest.ocr.mark import Mark
from duly.apps.ingest.ocr.page import read_pages
from duly.storage.photo import plain_photo
from tests.fast.apps.ingest.ocr.test_engine import HAS_SWEDISH, engine
from tests.support.ocr.days import AFTER, DAYS, picture, shows
from tests.support.ocr.marks import shifts_of

__all__ = ["engine"]

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("name", ["after", "grid"])
def test_a_screen_is_read_completely(engine: Engine, name: str) -> None:
    image = plain_photo(picture(name))
    marks = engine.read(image)
    assert shows(read_pages(marks, image.width, image.height, 2026), AFTER)
    assert any(mark.second for mark in marks) == HAS_SWEDISH


def test_a_list_of_several_days_is_read_day_by_day(engine: Engine) -> None:
    image = plain_photo(picture("days"))
    pages = read_pages(engine.read(image), image.width, image.height, 2026)
    assert {page.schedule_date: shifts_of(page) for page in pages} == DAYS
    assert [(page.begins, page.ends, page.problems) for page in pages] == [(True, True, ())] * 2


def texts_of(marks: Sequence[Mark], image: Image.Image) -> list[str]:
    """What marks say once both looks at them are weighed."""
    return [line.text for mark in marks for line in sheet_of([mark], image.width, image.height).lines]


def test_rapidocr_looks_again_at_a_capital_whose_ring_it_cut_off() -> None:
    rapid = RapidEngine(None)
    image = plain_photo(picture("ring"))
    assert "Atgärdsmöte" in [mark.text for mark in rapid.find(image)], "else nothing is shown"
    assert "Åtgärdsmöte" in texts_of(rapid.read(image), image)


def test_rapidocr_sees_a_ring_that_is_blurred_into_its_letter_and_none_on_a_bare_one() -> None:
    rapid = RapidEngine(None)
    image = plain_photo(picture("faint"))
    marks = rapid.find(image)
    assert {"Akning", "Gun Asbrink", "Asa Arvidsson", "Alva Afeldt"} <= {mark.text for mark in marks}
    assert [text for text in texts_of(rapid.read(image), image) if any(map(str.isalpha, text))] == [
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
