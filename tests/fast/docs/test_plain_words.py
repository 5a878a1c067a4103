"""The words of an earlier, private language stay out of the code, the tests, the tools and the docs."""

import re
from collections.abc import Iterator
from functools import cache

from duly.launcher import ROOT

PRIVATE_WORDS = {  # each with the term to use instead
    "nobody": "no worker, no client, no role",
    "somebody": "a client, another worker",
    "anybody": "any client, any role",
    "everybody": "every client, every role",
    "whoever": "the worker that, the client that",
    "law": "invariant",
    "laws": "invariants",
    "house": "system",
    "houses": "systems",
    "hands": "workers, holders",
    "eyes": "OCR",
    "voices": "channels",
    "leash": "sandbox",
    "nursery": "process pool",
    "keeper": "heartbeat",
    "deeds": "audit log",
    "lapse": "expire",
    "lapsed": "expired",
    "lapses": "expires",
    "told": "notified, printed, reported",
    "said": "printed, answered",
    "zombie": "stalled worker",
    "zombies": "stalled workers",
}
ALLOWED = {  # files in which a word has its plain meaning
    "nobody": {  # the account of Unix
        ".ci/fresh",
        "docs/architecture.md",
        "docs/configuration.md",
        "docs/figures/first-minute.md",
        "src/duly/configuration/engine.py",
        "src/duly/db/embedded/account.py",
        "tests/full/db/test_embedded_server.py",
    },
    "zombie": {"docs/decisions/0002-run-the-postgresql-programs-of-a-wheel-under-our-own-supervisor.md"},  # of Unix
    "house": {  # the number of a house; a name
        "src/duly/apps/ingest/ocr/block_fields.py",
        "src/duly/apps/ingest/ocr/times.py",
        "tools/schedule_images/vocabulary.py",
    },
}
PLACES = ["*.md", "src/**/*", "tests/**/*", "tools/**/*", "docs/**/*", "examples/**/*", "database/**/*", ".ci/*"]
SUFFIXES = {"", ".md", ".py", ".sql"}
SKIPPED = {"CHANGELOG.md", "docs/figures/contract-walk.md", "tests/fast/docs/test_plain_words.py"}  # old names, quoted
WORD = re.compile(rf"\b(?:{'|'.join(PRIVATE_WORDS)})\b", re.IGNORECASE)


def test_no_file_uses_the_words_of_the_private_language() -> None:
    offenders = list(find_private_words())
    assert not offenders, "\n".join(offenders)


def test_every_allowance_is_needed() -> None:
    used = {(word, name) for name, word, _ in matches()}
    unneeded = [f"{name}: {word}" for word, names in ALLOWED.items() for name in names if (word, name) not in used]
    assert not unneeded, "\n".join(unneeded)


def find_private_words() -> Iterator[str]:
    """List every private word with its file, its line and the term to use instead."""
    for name, word, line in matches():
        if name not in ALLOWED.get(word, ()):
            yield f"{name}: {word}: use {PRIVATE_WORDS[word]}: {line[:100]}"


@cache
def matches() -> list[tuple[str, str, str]]:
    """Return every occurrence of a private word: the file, the word and the line."""
    found: list[tuple[str, str, str]] = []
    for file in sorted({file for place in PLACES for file in ROOT.glob(place)}):
        name = file.relative_to(ROOT).as_posix()
        if file.suffix not in SUFFIXES or not file.is_file() or name in SKIPPED or "__pycache__" in file.parts:
            continue
        for line in file.read_text().splitlines():
            found += [(name, match[0].lower(), line.strip()) for match in WORD.finditer(line)]
    return found
