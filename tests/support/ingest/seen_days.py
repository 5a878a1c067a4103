"""Schedules as a person sees them, line by line: random ones, changed ones, and the same in another spelling."""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

WHO = (
    "Anna Svensson", "Bo Berg", "Skolan Eken", "Office Depot", "Café Paus", "Förskolan 3 Eken", "Förskolan 4 Eken",
    "Bergs AB", "Bergs HB", "",
)  # fmt: skip
WORK = ("Städning", "Fönsterputs", "Hemstädning", "Trappstädning")
WHAT = (*WORK, "Städning kök", "Städning badrum", "Möte", "Sjuk", "Lunch", "Jour", "Matlagning", "Restid till Borås")
LABELS = (
    *WORK,
    "Städning kök",
    "Städning badrum",
    "Möte",
    "Sjuk",
    "Lunch",
    "Restid",
    "Möte med facket",
    "Restid till Borås",
)
MARKS = ("", "", "", "", "avbokad", "inställd")
PLACES = (
    ("", "", "", "", ""), ("", "", "", "", "Billdal"), ("", "", "", "", "Göteborg"),
    ("Storgatan", "1", "", "412 58", "Göteborg"), ("Storgatan", "2", "", "412 58", "Göteborg"),
    ("Storgatan", "1", "", "412 59", "Göteborg"), ("Storgatan", "1", "", "", "Göteborg"),
    ("Storgatan", "1", "Uppgång B", "412 58", "Göteborg"), ("Storgatan", "1", "Uppgång C", "412 58", "Göteborg"),
    ("Lillgatan", "3B", "", "", "Mölndal"),
)  # fmt: skip
TIMES = (("08:00", "10:00"), ("08:00", "12:00"), ("10:00", "12:00"), ("10:00", "14:00"), ("14:30", "22:00"))
MORE_TIMES = (*TIMES, ("22:00", "06:00"), ("09:00", "10:00"))


@dataclass(frozen=True, order=True)
class Seen:
    """One line of a schedule, by its visible parts."""

    start: str
    end: str
    who: str
    what: str
    form: str  # how customer and work are combined: bullet, hos, or only one of them
    mark: str = ""  # the word for cancelled, if it is
    is_marked_first: bool = False
    street: str = ""
    number: str = ""
    detail: str = ""
    code: str = ""
    city: str = ""

    @property
    def title(self) -> str:
        """The line's title."""
        what = " ".join(filter(None, (self.mark, self.what) if self.is_marked_first else (self.what, self.mark)))
        match self.form:
            case "bullet":
                return f"{self.who} • {what}"
            case "hos":
                return f"{self.what} hos {self.who} {self.mark}".strip()
            case _:
                return " ".join(filter(None, (self.who, what)))


def random_line(chance: Random) -> Seen:
    """Return a random line."""
    who, (start, end), place = chance.choice(WHO), chance.choice(TIMES), chance.choice(PLACES)
    return with_valid_form(chance, Seen(start, end, who, chance.choice(WHAT), "", *_mark(chance), *place))


def _mark(chance: Random) -> tuple[str, bool]:
    mark = chance.choice(MARKS)
    return mark, bool(mark) and chance.random() < 0.5


def with_valid_form(chance: Random, line: Seen) -> Seen:
    """Return the line with a form that is valid for its customer and work."""
    if line.who and line.what in WORK and chance.random() < 0.3:
        return replace(line, form="hos", is_marked_first=False)
    if line.who and (line.what or line.mark):
        if line.mark and chance.random() < 0.2:
            return replace(line, form="bullet", what="", is_marked_first=False)
        return replace(line, form="bullet", is_marked_first=line.is_marked_first and bool(line.what))
    if line.who:
        return replace(line, form="who", is_marked_first=False)
    known = line.what if line.what in LABELS else chance.choice(LABELS)
    return replace(line, form="what", what=known)


def random_day(chance: Random) -> list[Seen]:
    """Return a day of a few random lines."""
    return sorted({random_line(chance) for _ in range(chance.randrange(6))})


def change_day(chance: Random, day: Sequence[Seen]) -> list[Seen]:
    """Return the day after a random change: lines changed, added or removed, or all replaced."""
    if chance.random() < 0.2:
        return random_day(chance)
    lines = list(day)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3))):
        match chance.randrange(8):
            case 0:
                lines.append(random_line(chance))
            case 1 if lines:
                lines.pop(chance.randrange(len(lines)))
            case 2 if len(lines) > 1:
                one, other = chance.sample(range(len(lines)), 2)
                first, second = lines[one], lines[other]
                lines[one] = replace(first, start=second.start, end=second.end)
                lines[other] = replace(second, start=first.start, end=first.end)
            case _ if lines:
                at = chance.randrange(len(lines))
                for _ in range(chance.choice((1, 1, 2))):
                    lines[at] = change_line(chance, lines[at])
            case _:
                pass
    return sorted(set(lines))


def change_line(chance: Random, line: Seen) -> Seen:
    """Return the line with one part changed."""
    match chance.randrange(6):
        case 0:
            start, end = chance.choice(MORE_TIMES)
            return replace(line, start=start, end=end)
        case 1:
            street, number, detail, code, city = chance.choice(PLACES)
            return replace(line, street=street, number=number, detail=detail, code=code, city=city)
        case 2:
            mark, is_first = _mark(chance)
            return with_valid_form(chance, replace(line, mark=mark, is_marked_first=is_first))
        case 3:
            return with_valid_form(chance, replace(line, what=chance.choice((*WHAT, ""))))
        case 4:
            return with_valid_form(chance, replace(line, who=chance.choice(WHO)))
        case _:
            return replace(line, end=chance.choice(MORE_TIMES)[1])


# As entries -----------------------------------------------------------------------------------------------------------


def entry_from_line(line: Seen, chance: Random | None = None) -> dict[str, Any]:
    """Return the line as an entry of a payload."""
    entry = {"start": line.start, "end": line.end, "title": line.title}
    if not line.street:
        return entry | ({"location": line.city} if line.city else {})
    number = f"{line.number[:-1]} {line.number[-1]}" if chance and line.number.endswith("B") else line.number
    parts = (f"{line.street} {number}", line.detail, f"{line.code} {line.city}".strip())
    entry["address"] = ", ".join(filter(None, parts))
    if chance and chance.random() < 0.5:
        entry["location"] = line.city
    return entry


def payload_from_lines(lines: Sequence[Seen], chance: Random | None = None) -> dict[str, Any]:
    """Return the lines as a payload; with `chance` in another spelling."""
    entries = [respell(chance, entry_from_line(line, chance)) if chance else entry_from_line(line) for line in lines]
    if chance:
        chance.shuffle(entries)
    return {"schedule_date": "2026-02-10", "entries": entries}


def respell(chance: Random, entry: dict[str, Any]) -> dict[str, Any]:
    """Return the entry in another spelling: case, blanks, Unicode forms, lost accents, invisible letters."""
    ways: tuple[Callable[[str], str], ...] = (
        str.upper,
        str.lower,
        partial(unicodedata.normalize, "NFD"),
        lambda text: text.replace(" ", "  ") + " ",
        lambda text: text.replace("ö", "o").replace("ä", "a"),
        lambda text: text.replace("•", "·"),
        lambda text: text.replace("a", "a\u200b", 1),
        lambda text: text.replace("3", "３"),  # noqa: RUF001
    )
    return {key: chance.choice(ways)(value) if key not in ("start", "end") else value for key, value in entry.items()}
