"""Faint diacritics: which ones win over a bare letter, and which do not."""

import numpy as np
import pytest

from duly.apps.ingest.ocr.rapidocr_engine import restore_faint_diacritics

ALPHABET = ("blank", "A", "Å", "Á", "Ä", "O", "Ö", "a", "å", "á", "ä", "o", "ö", "l", "E", "É")


def line(*steps: dict[str, float]) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    """Return the probabilities of one line, by time step and letter."""
    chances = np.zeros((1, len(steps), len(ALPHABET)), np.float32)
    for at, step in enumerate(steps):
        for letter, chance in step.items():
            chances[0, at, ALPHABET.index(letter)] = chance
    return chances


def read(*steps: dict[str, float]) -> list[str]:
    """Return the letter that wins at each time step."""
    return [ALPHABET[at] for at in restore_faint_diacritics(line(*steps), ALPHABET)[0].argmax(axis=1)]


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
def test_letter_becomes_its_most_probable_variant_with_a_diacritic(step: dict[str, float], right: str) -> None:
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
def test_too_faint_variants_and_variants_of_other_letters_change_nothing(step: dict[str, float]) -> None:
    assert (restore_faint_diacritics(line(step), ALPHABET) == line(step)).all()


def test_a_letter_of_several_time_steps_stays_one_letter() -> None:
    assert read({"A": 0.9, "Å": 0.1}, {"A": 1.0}, {"blank": 1.0}, {"A": 1.0}) == ["Å", "Å", "blank", "A"]


def test_an_alphabet_without_swedish_letters_is_unchanged() -> None:
    chances = np.array([[[0.1, 0.9]]], np.float32)
    assert (restore_faint_diacritics(chances, ("blank", "A")) == chances).all()
