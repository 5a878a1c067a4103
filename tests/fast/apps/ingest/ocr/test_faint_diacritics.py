"""Marks that are seen faintly: what must win over a bare letter, and what must not."""

import numpy as np
import pytest

from duly.apps.ingest.ocr.faint import with_faint_marks

LETTERS = ("blank", "A", "Å", "Á", "Ä", "O", "Ö", "a", "å", "á", "ä", "o", "ö", "l", "E", "É")


def line(*steps: dict[str, float]) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    """One line of some steps, with the chances of their letters."""
    chances = np.zeros((1, len(steps), len(LETTERS)), np.float32)
    for at, step in enumerate(steps):
        for letter, chance in step.items():
            chances[0, at, LETTERS.index(letter)] = chance
    return chances


def read(*steps: dict[str, float]) -> list[str]:
    """The letter that wins at each step."""
    return [LETTERS[at] for at in with_faint_marks(line(*steps), LETTERS)[0].argmax(axis=1)]


@pytest.mark.parametrize(
    ("step", "right"),
    [
        ({"A": 0.9, "Å": 0.08}, "Å"),
        ({"A": 0.9, "Å": 0.02, "Á": 0.05, "Ä": 0.03}, "Å"),
        ({"A": 0.9, "Å": 0.02, "Ä": 0.06}, "Ä"),
        ({"a": 0.9, "á": 0.06, "ä": 0.02}, "å"),
        ({"á": 0.5, "å": 0.2, "ä": 0.1}, "å"),
        ({"O": 0.9, "Ö": 0.08}, "Ö"),
        ({"o": 0.9, "ö": 0.08}, "ö"),
    ],
)
def test_a_letter_whose_marked_likes_have_a_part_of_the_chances_bears_the_likeliest(
    step: dict[str, float], right: str
) -> None:
    assert read({"blank": 1.0}, step, {"l": 1.0}) == ["blank", right, "l"]


@pytest.mark.parametrize(
    "step",
    [
        {"A": 0.98, "Å": 0.01, "Ä": 0.01},
        {"A": 0.6, "a": 0.2, "å": 0.2},
        {"E": 0.6, "É": 0.4},
        {"l": 0.6, "Å": 0.4},
        {"á": 0.98, "å": 0.01},
        {"Ä": 0.6, "Å": 0.4},
    ],
)
def test_what_is_hardly_seen_or_is_of_another_letter_changes_nothing(step: dict[str, float]) -> None:
    assert (with_faint_marks(line(step), LETTERS) == line(step)).all()


def test_a_letter_that_lasts_stays_one_letter() -> None:
    assert read({"A": 0.9, "Å": 0.1}, {"A": 1.0}, {"blank": 1.0}, {"A": 1.0}) == ["Å", "Å", "blank", "A"]


def test_an_alphabet_without_swedish_is_left_alone() -> None:
    chances = np.array([[[0.1, 0.9]]], np.float32)
    assert (with_faint_marks(chances, ("blank", "A")) == chances).all()
