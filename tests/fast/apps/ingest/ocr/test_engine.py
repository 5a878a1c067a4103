"""Real engines over pictures: the only tests here that read."""

import sys
from pathlib import Path

import pytest

from duly.apps.ingest.ocr.engine import EngineConfig, OcrEngine, build_engine, find_tessdata
from duly.apps.ingest.ocr.reader import read_days
from duly.errors import MissingExtra
from duly.storage.photo import decode_photo
from tests.support.ocr.days import AFTER, BEFORE, picture, shows

pytestmark = pytest.mark.timeout(600)
HAS_SWEDISH = find_tessdata("swe", None) is not None
needs_swedish = pytest.mark.skipif(not HAS_SWEDISH, reason="needs swe.traineddata: apt install tesseract-ocr-swe")


@pytest.fixture(scope="module")
def engine() -> OcrEngine:
    """The best engine that is installed, built once."""
    return build_engine(EngineConfig())


def test_an_image_without_text_has_no_text_boxes(engine: OcrEngine) -> None:
    from PIL import Image

    assert engine.recognise(Image.new("RGB", (300, 200), "white")) == []


@needs_swedish
@pytest.mark.parametrize(("name", "shifts"), [("before", BEFORE), ("after", AFTER), ("grid", AFTER)])
def test_tesseract_alone_reads_a_screen_completely(name: str, shifts: list[tuple[str, str, str, str, str]]) -> None:
    alone = build_engine(EngineConfig("tesseract"))
    assert alone.name == "tesseract"
    image = decode_photo(picture(name))
    assert shows(read_days(alone.recognise(image), image.width, image.height, 2026), shifts)


def test_tessdata_is_found_in_the_given_directory_or_its_tessdata_folder(tmp_path: Path) -> None:
    assert find_tessdata("swe", str(tmp_path)) is None
    (tmp_path / "tessdata").mkdir()
    (tmp_path / "tessdata" / "swe.traineddata").touch()
    assert find_tessdata("swe", str(tmp_path)) == str(tmp_path / "tessdata")
    assert find_tessdata("swe", str(tmp_path / "tessdata")) == str(tmp_path / "tessdata")


def test_missing_engine_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingExtra, match=r"OCR_LANG=sv: .* has no swe.traineddata; .* tesseract-ocr-swe"):
        build_engine(EngineConfig("tesseract", tessdata=str(tmp_path)))
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    with pytest.raises(MissingExtra, match=r"OCR_ENGINE=rapidocr: .* pip install 'duly\[ocr\]'"):
        build_engine(EngineConfig("rapidocr"))
    with pytest.raises(MissingExtra, match="the only engine to use"):
        build_engine(EngineConfig("auto", tessdata=str(tmp_path)))
