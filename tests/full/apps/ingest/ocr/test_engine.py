"""Real engines over pictures: the only tests here that read."""

from collections.abc import Sequence

import pytest
from PIL import Image

from duly.apps.ingest.ocr.engine import OcrEngine
from duly.apps.ingest.ocr.lines import assemble_lines
from duly.apps.ingest.ocr.rapidocr_engine import RapidOcrEngine
from duly.apps.ingest.ocr.reader import read_days
from duly.apps.ingest.ocr.text_box import TextBox
from duly.storage.photo import decode_photo
from tests.fast.apps.ingest.ocr.test_engine import HAS_SWEDISH, engine
from tests.support.ocr.days import AFTER, DAYS, picture, shows
from tests.support.ocr.text_boxes import shifts_of

__all__ = ["engine"]

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("name", ["after", "grid"])
def test_the_ocr_engine_reads_every_recorded_screen_completely(engine: OcrEngine, name: str) -> None:
    image = decode_photo(picture(name))
    boxes = engine.recognise(image)
    assert shows(read_days(boxes, image.width, image.height, 2026), AFTER)
    assert any(box.second_engine_text for box in boxes) == HAS_SWEDISH


def test_a_list_of_several_days_is_read_day_by_day(engine: OcrEngine) -> None:
    image = decode_photo(picture("days"))
    pages = read_days(engine.recognise(image), image.width, image.height, 2026)
    assert {page.schedule_date: shifts_of(page) for page in pages} == DAYS
    assert [(page.shows_day_start, page.shows_day_end, page.problems) for page in pages] == [(True, True, ())] * 2


def texts_of(boxes: Sequence[TextBox], image: Image.Image) -> list[str]:
    """Return the texts of boxes after their readings are reconciled."""
    return [line.text for box in boxes for line in assemble_lines([box], image.width, image.height).lines]


def test_rapidocr_rereads_a_capital_whose_ring_it_cut_off() -> None:
    rapid = RapidOcrEngine(None)
    image = decode_photo(picture("ring"))
    assert "Atgärdsmöte" in [box.text for box in rapid.detect(image)], "else nothing is shown"
    assert "Åtgärdsmöte" in texts_of(rapid.recognise(image), image)


def test_rapidocr_reads_a_blurred_ring_and_adds_none_to_a_bare_letter() -> None:
    rapid = RapidOcrEngine(None)
    image = decode_photo(picture("faint"))
    boxes = rapid.detect(image)
    assert {"Akning", "Gun Asbrink", "Asa Arvidsson", "Alva Afeldt"} <= {box.text for box in boxes}
    assert [text for text in texts_of(rapid.recognise(image), image) if any(map(str.isalpha, text))] == [
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
