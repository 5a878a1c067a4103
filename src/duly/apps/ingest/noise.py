"""Seeded OCR-like noise, for tests: the same day in another spelling, never another day.

For every seed canonicalize(add_noise(x)) == canonicalize(x), which makes it a test of the canonical form.
"""

from collections.abc import Mapping
from random import Random

from duly.apps.ingest.canonical import canonicalize
from duly.apps.ingest.spelling import has_two_cases
from duly.canonical_json import Json


def add_noise(payload: object, seed: int | str) -> dict[str, Json]:
    """Return the payload with other blanks, capitals, formats of times and order of entries."""
    chance = Random(seed)  # noqa: S311 (noise, not a secret)
    noisy = dict(canonicalize(payload).payload)
    entries = noisy["entries"]
    assert isinstance(entries, list), "a canonical payload has a list of entries"
    noisy["entries"] = [_entry(chance, entry) for entry in entries if isinstance(entry, Mapping)]
    chance.shuffle(noisy["entries"])
    return noisy


def _entry(chance: Random, entry: Mapping[str, Json]) -> dict[str, Json]:
    noisy = dict(entry)
    for name in ("start", "end"):
        noisy[name] = _time(chance, str(entry[name]))
    for name in ("title", "location", "address"):
        if name in entry:
            noisy[name] = _blanks(chance, _cases(chance, str(entry[name])))
    return noisy


def _time(chance: Random, time: str) -> str:
    hour, minute = time.split(":")
    spellings = (time, f"{hour}.{minute}", f"{hour} {minute}", f"{int(hour)}:{minute}", f"{hour}:{int(minute)}")
    return chance.choice(spellings)


def _cases(chance: Random, text: str) -> str:
    change = chance.choice((str.lower, str.upper, None))
    if change is None:
        return text
    return "".join(change(letter) if has_two_cases(letter) else letter for letter in text)


def _blanks(chance: Random, text: str) -> str:
    if chance.random() < 0.5:
        text = text.replace(" ", "  ")
    if chance.random() < 0.3:
        text = " " + text
    if chance.random() < 0.7:
        text += " " * chance.choice((1, 2))
    return text
