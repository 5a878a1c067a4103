"""Drawn images of schedules, which measure reading: repeatable, with names that no list has, and counted fairly."""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from duly.apps.ingest.ocr.block_fields import RecognisedShift
from duly.apps.ingest.ocr.letters import fold, known_words
from duly.apps.ingest.ocr.reader import RecognisedDay
from tools.schedule_images import Plan, plan_all, plan_some, render
from tools.schedule_images.damages import DAMAGES
from tools.schedule_images.fonts import FAMILIES, MissingFonts, missing_fonts
from tools.schedule_images.layouts import LAYOUTS, READABLE, REFUSED
from tools.schedule_images.score import compare
from tools.schedule_images.vocabulary import LANGUAGES, PLACE_ENDINGS, SURNAME_ENDINGS, Words

INSTALLED = [name for name in FAMILIES if name not in missing_fonts()]
NAMES = 2000
needs_a_font = pytest.mark.skipif(not INSTALLED, reason=str(MissingFonts(FAMILIES)))


# Drawing --------------------------------------------------------------------------------------------------------------


@needs_a_font
@pytest.mark.parametrize("damage", DAMAGES)
def test_the_same_plan_draws_the_same_bytes(damage: str) -> None:
    plan = Plan(5, 1, "list", INSTALLED[0], damage)
    assert render(plan) == render(plan)


@needs_a_font
def test_another_seed_or_number_draws_another_image() -> None:
    plans = [Plan(seed, number, "list", INSTALLED[0], "jpeg") for seed, number in ((1, 0), (2, 0), (1, 1))]
    assert len({render(plan).data for plan in plans}) == 3


@needs_a_font
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_drawn_with_its_expected_reading(layout: str) -> None:
    sample = render(Plan(1, 0, layout, INSTALLED[0], "jpeg"))
    assert sample.data
    assert (sample.truth.refuse is not None) == (layout in REFUSED)
    assert bool([shift for day in sample.truth.days for shift in day.shifts]) == (layout in READABLE)


@pytest.mark.parametrize("font", FAMILIES)
def test_every_font_renders_or_names_the_package_to_install(font: str) -> None:
    plan = Plan(1, 0, "cards", font, "clean")
    if font in INSTALLED:
        assert render(plan).suffix == "png"
        return
    with pytest.raises(MissingFonts, match=rf"fonts missing in .*{font}.*apt-get install -y {FAMILIES[font].package}"):
        render(plan)


def test_plan_all_contains_every_combination_once() -> None:
    plans = list(plan_all(1, list(LAYOUTS), list(FAMILIES), list(DAMAGES)))
    assert len({plan.name for plan in plans}) == len(plans) == len(LAYOUTS) * len(FAMILIES) * len(DAMAGES)


def test_plan_some_is_balanced_over_layouts_and_deterministic() -> None:
    arguments = (7, 2 * len(LAYOUTS), list(LAYOUTS), list(FAMILIES), list(DAMAGES))
    plans = list(plan_some(*arguments))
    assert sorted(plan.layout for plan in plans) == sorted([*LAYOUTS, *LAYOUTS])
    assert plans == list(plan_some(*arguments))


# Names ----------------------------------------------------------------------------------------------------------------


def marked_names(language: str) -> list[str]:
    """Those of many invented names, places and surnames that have a letter with a mark."""
    vocabulary = Words(random.Random(f"names {language}"), language)  # noqa: S311
    names = [name for _ in range(NAMES) for name in (vocabulary.name(), vocabulary.place(), vocabulary.surname())]
    return [name for name in names if fold(name) != name.casefold()]


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_invented_name_with_a_diacritic_is_in_the_word_list_of_the_reader(language: str) -> None:
    spellings = {spelling.casefold() for found in known_words()[0].values() for spelling in found}
    names = marked_names(language)
    assert bool(names) == (language != "en")
    assert [name for name in names if name.casefold() in spellings] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_invented_names_share_only_usual_endings_with_the_word_list(language: str) -> None:
    _, _, ends = known_words()
    usual = {fold(end) for end in (*PLACE_ENDINGS[language], *SURNAME_ENDINGS[language])}
    known = [end for name in marked_names(language) for end in ends if fold(name).endswith(end)]
    assert {end for end in known if not end.endswith(tuple(usual))} == set()


# Counting -------------------------------------------------------------------------------------------------------------

ANNA = ("08:00", "09:00", "Städning", "Anna Bua", "Brenvik")
BO = ("10:00", "11:30", "Tillsyn (2 pers)", "Bo Älm", "Storgatan 4")
DAY = "2026-09-07"
TRUTH: Mapping[str, Any] = {"days": [{"date": DAY, "shifts": [ANNA, BO]}], "refuse": None}


def read(*shifts: tuple[str, ...], day: str | None = DAY, problems: tuple[str, ...] = ()) -> list[RecognisedDay]:
    """A page that shows these shifts."""
    cards = tuple(RecognisedShift(*shift, address="", confidence=0.99) for shift in shifts)
    return [RecognisedDay(day, cards, problems, shows_day_start=True, shows_day_end=True)]


def test_an_image_that_is_read_as_drawn_is_right() -> None:
    outcome = compare(read(BO, ANNA), TRUTH)
    assert (outcome.verdict, outcome.drawn, outcome.right, outcome.missing, outcome.extra) == ("right", 2, 2, [], [])


@pytest.mark.parametrize(
    "shift",
    [
        (*BO[:2], "tillsyn (2 pers)", *BO[3:]),
        (*BO[:2], "Tillsyn (2pers)", *BO[3:]),
        (*BO[:2], "Tillsyn 2 pers.", *BO[3:]),
        (*BO[:3], "BO ÄLM", "Storgatan, 4"),
    ],
)
def test_comparison_ignores_case_blanks_and_punctuation(shift: tuple[str, ...]) -> None:
    assert compare(read(ANNA, shift), TRUTH).verdict == "right"


@pytest.mark.parametrize(
    "shift",
    [
        (*BO[:3], "Bo Alm", BO[4]),
        (*BO[:3], "Bo Ålm", BO[4]),
        (*BO[:3], "", BO[4]),
        (*BO[:4], "Storgatan 5"),
        ("10:00", "11:00", *BO[2:]),
        (*BO[:3], BO[4], BO[3]),
    ],
)
def test_comparison_detects_a_different_diacritic_letter_digit_or_field(shift: tuple[str, ...]) -> None:
    outcome = compare(read(ANNA, shift), TRUTH)
    assert (outcome.verdict, outcome.right) == ("wrong", 1)
    assert (outcome.missing, outcome.extra) == ([(DAY, *BO)], [(DAY, *shift)])


@pytest.mark.parametrize(
    "pages",
    [read(ANNA), read(ANNA, BO, BO), read(ANNA, BO, day="2026-09-08")],
    ids=["a shift is missing", "a shift too many", "another day"],
)
def test_missing_extra_or_misdated_shift_is_silently_wrong(pages: list[RecognisedDay]) -> None:
    assert compare(pages, TRUTH).verdict == "wrong"


@pytest.mark.parametrize(
    "pages",
    [read(ANNA, BO, problems=("hardly legible",)), read(ANNA, BO, day=None), read()],
    ids=["a problem", "no date", "no shift"],
)
def test_an_image_with_a_problem_or_without_a_date_or_a_shift_is_refused(pages: list[RecognisedDay]) -> None:
    assert compare(pages, TRUTH).verdict == "refused"


def test_an_image_that_must_be_refused_and_is_read_is_silently_wrong() -> None:
    truth: Mapping[str, Any] = {"days": [], "refuse": "it is cut"}
    assert compare(read(ANNA), truth).verdict == "wrong"
    assert compare(read(ANNA, problems=("it is cut",)), truth).verdict == "refused"
