"""Times that others replaced, text that is struck through, cut or barely legible, and times in a wrong order."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from duly.apps.ingest.ocr.text_box import Ink, TextBox
from tests.fast.apps.ingest.ocr.test_layout import ANNA, BO, EVA, FOOT, HEAD, ShiftFields, as_cards, as_list
from tests.support.ocr.text_boxes import box, page, shifts_of

STRUCK, NEARLY = (
    Ink(contrast=0.6, stroke_width=3, strikethrough=0.65),
    Ink(contrast=0.6, stroke_width=3, strikethrough=0.64),
)
STRUCK_WORDS, WIDE_LETTERS = (
    Ink(contrast=0.6, stroke_width=3, strikethrough=0.9),
    Ink(contrast=0.6, stroke_width=3, strikethrough=0.75),
)


def struck(text: str, x: float, y: float, ink: Ink = STRUCK) -> TextBox:
    """Return a box with struck-through text."""
    return replace(box(text, x, y), ink=ink)


# Old times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "y", "down"),
    [(320, 343, 0), (80, 305, 0), (80, 391, 30)],
    ids=["beside the new ones", "above them", "below them"],
)
def test_struck_through_times_near_others_are_old(x: float, y: float, down: float) -> None:
    times, *rest = as_cards(ANNA)
    rows = [replace(each, corners=moved(each, down)) for each in rest]
    found = page([*HEAD, times, struck("07:15-08:15", x, y), *rows, *FOOT])
    assert (shifts_of(found), found.problems) == ([ANNA], ())


def moved(each: TextBox, down: float) -> tuple[tuple[float, float], ...]:
    """Return the corners of a box, moved down."""
    return tuple((x, y + down) for x, y in each.corners)


def test_rows_of_a_shift_with_old_times_above_stay_with_it() -> None:
    boxes = [struck("07:15-08:15", 48, 317), box("08:00-09:00", 48, 370), *as_list(ANNA)[1:]]
    found = page([*HEAD, *boxes, *as_list(ANNA, BO)[4:], *FOOT])
    assert (shifts_of(found), found.problems) == ([ANNA, BO], ())


@pytest.mark.parametrize(
    "old",
    ["(07:15-08:15)", "[07:15-08:15]", "tidigare 07:15-08:15", "(was 07:15-08:15)", "vorher 07:15-08:15"],
)
@pytest.mark.parametrize("is_beside", [True, False], ids=["beside", "below"])
def test_times_in_brackets_or_with_a_word_for_old_are_old(old: str, is_beside: bool) -> None:
    times, *rest = as_cards(ANNA)
    note = box(old, 320, 343) if is_beside else box(old, 80, 391)
    rows = [replace(each, corners=moved(each, 30)) for each in rest]
    found = page([*HEAD, times, note, *rows, *FOOT])
    assert (shifts_of(found), found.problems) == ([ANNA], ())


def test_times_that_are_not_struck_through_are_valid() -> None:
    boxes = [*as_cards(ANNA, BO), *FOOT]
    boxes[0] = replace(boxes[0], ink=NEARLY)
    assert shifts_of(page([*HEAD, *boxes])) == [ANNA, BO]


def test_struck_through_times_without_a_replacement_are_a_problem() -> None:
    boxes = as_cards(ANNA, BO, EVA)
    boxes[4] = replace(boxes[4], ink=STRUCK)
    found = page([*HEAD, *boxes, *FOOT])
    assert found.problems == ("'10:00\N{EN DASH}11:30' is struck through",)


@pytest.mark.parametrize("at", [1, 2, 3], ids=["title", "customer", "place"])
def test_struck_through_words_are_a_problem(at: int) -> None:
    boxes = as_cards(ANNA, BO)
    boxes[at] = replace(boxes[at], ink=STRUCK_WORDS)
    found = page([*HEAD, *boxes, *FOOT])
    assert found.problems == (f"{ANNA[at + 1]!r} is struck through",)


def test_words_with_wide_letters_are_not_struck_through() -> None:
    boxes = [replace(each, ink=WIDE_LETTERS) if at % 4 else each for at, each in enumerate(as_cards(ANNA, BO))]
    found = page([*HEAD, *boxes, *FOOT])
    assert (shifts_of(found), found.problems) == ([ANNA, BO], ())


def test_times_directly_below_others_that_are_not_struck_through_are_a_problem() -> None:
    found = page([*HEAD, box("07:15-08:15", 80, 293), *as_cards(ANNA, BO, EVA), *FOOT])
    assert found.problems == (
        "the shift '07:15-08:15' has no title (17% from the left, 13% from the top)",
        "'08:00\N{EN DASH}09:00' is too close to other times",
    )


# Their order ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shifts", "steps"),
    [
        ([BO, ANNA], "10:00 is followed by 08:00"),
        ([ANNA, EVA, BO], "12:15 is followed by 10:00"),
        ([EVA, BO, ANNA], "12:15 is followed by 10:00, 10:00 is followed by 08:00"),
    ],
)
def test_times_that_run_backwards_are_a_problem(shifts: Sequence[ShiftFields], steps: str) -> None:
    found = page([*HEAD, *as_list(*shifts), *FOOT])
    assert found.problems == (f"the times run backwards: {steps}",)


def test_shifts_that_overlap_do_not_run_backwards() -> None:
    early, within = ("08:00", "12:00", *ANNA[2:]), ("09:00", "10:00", *EVA[2:])
    found = page([*HEAD, *as_list(early, BO, within), *FOOT])
    assert (shifts_of(found), found.problems) == ([early, BO, within], ())


def test_one_step_over_midnight_does_not_run_backwards() -> None:
    evening, night = ("21:00", "23:00", *ANNA[2:]), ("00:30", "02:00", *BO[2:])
    found = page([*HEAD, *as_list(evening, night), *FOOT])
    assert (shifts_of(found), found.problems) == ([evening, night], ())


# What cannot be relied on ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1, 2, 3], ids=["times", "title", "customer", "place"])
def test_text_that_is_cut_off_at_the_side_is_a_problem_with_its_position(at: int) -> None:
    boxes = as_cards(ANNA, BO, left=780)
    cut = replace(boxes[at], corners=stretched(boxes[at], 1079), ends_at_page_edge=True)
    found = page([*HEAD, *boxes[:at], cut, *boxes[at + 1 :], *FOOT])
    (x, y) = cut.centre
    assert found.problems == (
        f"{cut.text!r} may be cut off at the side, or continue "
        f"({x / 1080:.0%} from the left, {y / 2400:.0%} from the top)",
    )


def stretched(each: TextBox, right: float) -> tuple[tuple[float, float], ...]:
    """Return the corners of a box with another right edge."""
    (left, top), _, (_, bottom), _ = each.corners
    return ((left, top), (right, top), (right, bottom), (left, bottom))


def test_text_that_other_text_extends_beyond_is_not_cut_off() -> None:
    boxes = [replace(each, ends_at_page_edge=each.text == "Askim") for each in as_cards(ANNA, BO)]
    found = page([*HEAD, *boxes, *FOOT])
    assert (shifts_of(found), found.problems) == ([ANNA, BO], ())


@pytest.mark.parametrize("at", [1, 2, 3], ids=["title", "customer", "place"])
def test_a_line_that_two_passes_read_differently_is_a_problem_with_its_position(at: int) -> None:
    boxes = as_cards(ANNA, BO)
    boxes[at] = replace(boxes[at], reread_text=f"{boxes[at].text[:-2]}xy")
    found = page([*HEAD, *boxes, *FOOT])
    (x, y) = boxes[at].centre
    assert found.problems == (
        f"{boxes[at].text!r} is barely legible ({x / 1080:.0%} from the left, {y / 2400:.0%} from the top)",
    )


def test_a_line_that_the_second_engine_reads_like_the_first_pass_is_accepted() -> None:
    boxes = as_cards(ANNA, BO)
    boxes[2] = replace(boxes[2], reread_text="Anna Svemsson", second_engine_text="Anna Svensson")
    found = page([*HEAD, *boxes, *FOOT])
    assert (shifts_of(found), found.problems) == ([ANNA, BO], ())


def test_a_barely_legible_letter_is_a_problem_unless_two_passes_agree_on_it() -> None:
    boxes = as_cards(ANNA, BO)
    weak = replace(boxes[2], min_char_confidence=0.34)
    found = page([*HEAD, *boxes[:2], weak, *boxes[3:], *FOOT])
    assert [problem.split(" (")[0] for problem in found.problems] == ["'Anna Svensson' is barely legible"]
    agreed = replace(weak, reread_text="Anna Svensson")
    assert page([*HEAD, *boxes[:2], agreed, *boxes[3:], *FOOT]).problems == ()
