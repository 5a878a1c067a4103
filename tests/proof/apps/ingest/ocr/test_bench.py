"""How readings are scored, and compared with the goals."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from duly.apps.ingest.ocr.block_fields import RecognisedShift
from duly.apps.ingest.ocr.reader import RecognisedDay
from duly.errors import Misconfigured
from tests.support.ocr import screens
from tests.support.ocr.text_boxes import box
from tools.bench.ocr.goals import GOALS, find_failed_goals
from tools.bench.ocr.reading import Reading, ReadingCache
from tools.bench.ocr.score import Score, score_day, total

DAY = "2026-02-24"
ANNA = ("08:00", "09:00", "Städning", "Anna Svensson", "Åby")
BO = ("10:00", "11:30", "Tillsyn", "Bo Öberg", "Askim")
ALL_RIGHT = Score(images=10, dates=10, shifts=1000, right=1000, times=1000, marked=1000, kept=1000)


def read(*shifts: tuple[str, ...], day: str | None = DAY, problems: tuple[str, ...] = ()) -> RecognisedDay:
    """Return a day with these shifts."""
    cards = tuple(RecognisedShift(*shift, address="", confidence=0.99) for shift in shifts)
    return RecognisedDay(day, cards, problems, shows_day_start=True, shows_day_end=True)


# Scoring --------------------------------------------------------------------------------------------------------------


def test_a_completely_read_page_has_the_full_score() -> None:
    score = score_day(read(BO, ANNA), DAY, [ANNA, BO])
    assert score == Score(images=1, dates=1, shifts=2, right=2, times=2, marked=3, kept=3)


@pytest.mark.parametrize(
    ("found", "changes"),
    [
        (read(ANNA), {"right": 1, "times": 1, "kept": 2}),
        (read(ANNA, BO, day=None), {"dates": 0}),
        (read(ANNA, BO, day="2026-02-25"), {"dates": 0}),
        (read((*ANNA[:4], "Aby"), BO), {"right": 1, "kept": 2}),
        (read((*ANNA[:4], "åby"), BO), {"right": 1, "kept": 2}),
        (read((*ANNA[:4], "O Åby"), BO), {"right": 1}),
        (read((*ANNA[:2], "städning", *ANNA[3:]), BO), {"right": 1}),
        (read(("08:00", "09:30", *ANNA[2:]), BO), {"right": 1, "times": 1, "kept": 1, "invented": 1}),
        (read(ANNA, BO, BO), {"invented": 1}),
        (read(ANNA, BO, problems=("barely legible",)), {"flagged": 1}),
    ],
)
def test_a_reading_that_differs_from_the_image_is_not_scored_as_right(
    found: RecognisedDay, changes: dict[str, int]
) -> None:
    whole = score_day(read(ANNA, BO), DAY, [ANNA, BO])
    assert score_day(found, DAY, [ANNA, BO]) == replace(whole, **changes)


def test_scores_add_up() -> None:
    one = score_day(read(ANNA), DAY, [ANNA, BO])
    assert total([one, one, one]) == Score(**{name: 3 * value for name, value in asdict(one).items()})


# Judging --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "change", "refusal"),
    [
        ("checked", {"right": 970, "kept": 990}, None),
        ("checked", {"right": 969}, "969 of 1000 shifts completely right = 96.9 %, and 97 % are needed"),
        ("alone", {"right": 950}, None),
        ("alone", {"right": 949}, "949 of 1000 shifts completely right = 94.9 %, and 95 % are needed"),
        ("tesseract", {"right": 949}, "949 of 1000 shifts completely right = 94.9 %, and 95 % are needed"),
        ("checked", {"kept": 989}, "989 of 1000 å ä ö kept = 98.9 %, and 99 % are needed"),
        ("alone", {"kept": 989}, "989 of 1000 å ä ö kept = 98.9 %, and 99 % are needed"),
        ("checked", {"times": 999}, "999 of 1000 times = 99.9 %, and 100 % are needed"),
        ("alone", {"times": 999}, "999 of 1000 times = 99.9 %, and 100 % are needed"),
    ],
)
def test_find_failed_goals_names_the_goal_that_was_missed(
    way: str, change: dict[str, int], refusal: str | None
) -> None:
    assert find_failed_goals({way: ALL_RIGHT}) == []
    missed = find_failed_goals({**dict.fromkeys(GOALS, ALL_RIGHT), way: replace(ALL_RIGHT, **change)})
    assert missed == ([f"{way}: {refusal}"] if refusal else [])


def test_find_failed_goals_fails_without_any_shift_to_read() -> None:
    assert find_failed_goals({}) == find_failed_goals({"alone": Score(images=1)}) == ["there was no shift to read"]


# Readings -------------------------------------------------------------------------------------------------------------

READING = Reading(
    "rapidocr", 1080, 2400, (replace(box("08:00-09:00 Aby", 48, 317), second_engine_text="Åby"),), 4.2, 700.5
)


def test_only_a_reading_of_two_engines_counts_as_checked() -> None:
    both = replace(READING, engine="rapidocr and tesseract")
    assert (both.ways, READING.ways, replace(both, engine="tesseract").ways) == (
        ("checked", "alone"),
        ("alone",),
        ("tesseract",),
    )
    assert {way for each in (both, READING) for way in each.ways} <= set(GOALS)
    unknown = replace(both, boxes=[replace(box("08:00-09:00 Arby", 48, 317), second_engine_text="Årby")])
    assert [unknown.page(way).shifts[0].title for way in unknown.ways] == ["Årby", "Arby"]


def test_an_unreadable_screen_is_flagged_and_has_no_shifts() -> None:
    failed = Reading("rapidocr", 0, 0, (), 0.0, 0.0, failure="it was not read: TIMEOUT")
    score = score_day(failed.page("alone"), DAY, [ANNA])
    assert score == Score(images=1, shifts=1, marked=2, flagged=1)


def test_a_screen_that_was_read_as_several_days_counts_as_wrong() -> None:
    days = [
        [box(day, 48, y), box("08:00-09:00", 48, y + 60), box("Städning", 48, y + 120)]
        for day, y in (("Måndag 7 september 2026", 100), ("Tisdag 8 september 2026", 500))
    ]
    found = replace(READING, boxes=[each for day in days for each in day]).page("alone")
    assert found.problems == ("it was read as 2 days: 2026-09-07, 2026-09-08",)
    assert score_day(found, "2026-09-07", [ANNA]) == Score(images=1, shifts=1, marked=2, flagged=1)


def test_the_reading_cache_is_keyed_by_image_content_and_skips_failures(tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    ReadingCache(path).write("screens-1", b"one", READING)
    ReadingCache(path).write("screens-2", b"two", replace(READING, failure="it was not read"))
    assert ReadingCache(path).find(b"one") == replace(READING, boxes=list(READING.boxes))
    assert ReadingCache(path).find(b"two") is None
    assert ReadingCache(path).find(b"drawn anew") is None


# Drawing --------------------------------------------------------------------------------------------------------------


def test_drawing_without_fonts_names_the_package_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screens, "FONT_PLACES", (tmp_path,))
    screens.fonts.cache_clear()
    with pytest.raises(Misconfigured, match=r"of Roboto-Regular.ttf, .* none is in .*; install one \(Debian: apt"):
        screens.draw(1)
    screens.fonts.cache_clear()


@pytest.mark.parametrize("seed", [3, 1003])
def test_a_seed_draws_the_same_screen_with_the_vocabulary_of_its_set(seed: int) -> None:
    try:
        one, other = screens.draw(seed), screens.draw(seed)
    except Misconfigured as error:
        pytest.skip(str(error))
    assert one == other
    words = screens.REPORT if seed >= screens.REPORT_FROM else screens.DEVELOPMENT
    assert one.truth.shifts
    assert all(title in words.titles for _, _, title, _, _ in one.truth.shifts)
