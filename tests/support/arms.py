"""The arms of a law: every way to break it that its statement looks for, and the statement with one switched off.

A law says `this or that`, looks at several tables with `union all`, tells cases apart, or compares several columns at
once. Each of these is an arm. A violation that is caught without an arm says nothing about it: for every arm there must
be one that is caught by that arm alone.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|%%|%\(\w+\)s|\w+|[(),]|<>|\S")
CLAUSES = {"where", "having", "on", "when", "then", "else"}
ENDS = {"select", "from", "join", "left", "full", "cross", "union", "group", "window", "order", "offset", "limit"}
DISTINCT = ("is", "distinct", "from")


@dataclass(frozen=True)
class Arm:
    """One way to break a law: how it reads, and the whole statement without it."""

    text: str
    without: str


@dataclass(frozen=True)
class Cut:
    """Where an arm stands, how it reads, and what stands there instead when it is switched off."""

    start: int
    end: int
    text: str
    instead: str


@dataclass
class Part:
    """What stands in one pair of brackets, or between `case` and `end`: tokens, and parts inside of it."""

    opened: str
    start: int
    end: int = 0
    is_denied: bool = False  # inside of `not exists (...)`: less of it finds more
    items: list["re.Match[str] | Part"] = field(default_factory=list["re.Match[str] | Part"])

    @property
    def inner(self) -> tuple[int, int]:
        """Where what is inside begins and ends."""
        closed = {"(": 1, "case": 3}.get(self.opened, 0)
        return self.start + len(self.opened), self.end - closed

    def word(self, place: int) -> str:
        """The word at this place; nothing where there is none, or a part."""
        if not 0 <= place < len(self.items):
            return ""
        item = self.items[place]
        return "" if isinstance(item, Part) else item[0].lower()

    def ends(self, place: int) -> bool:
        """Does a condition end here? The `from` of `is distinct from` ends none."""
        return self.word(place) in ENDS | CLAUSES and self.word(place - 1) != "distinct"


def arms_of(statement: str) -> Sequence[Arm]:
    """Every arm of a statement, in the order in which they stand there."""
    text = "\n".join(line for line in statement.splitlines() if not line.startswith("-- ")).rstrip().rstrip(";")
    found: list[Cut] = []
    for part in parts_of(parse(text)):
        found += [*branches_of(part, text), *operands_of(part, text), *columns_of(part, text), *cases_of(part, text)]
    return [
        Arm(" ".join(cut.text.split()), text[: cut.start] + cut.instead + text[cut.end :])
        for cut in sorted(found, key=lambda cut: cut.start)
    ]


def parse(text: str) -> Part:
    """The statement as parts inside of parts."""
    whole = Part("", 0, len(text))
    inside = [whole]
    for token in TOKEN.finditer(text):
        word, part = token[0].lower(), inside[-1]
        if word in ("(", "case"):
            last = len(part.items)
            is_denied = part.word(last - 1) == "exists" and part.word(last - 2) == "not"
            inside.append(Part(word, token.start(), is_denied=part.is_denied or is_denied))
            part.items.append(inside[-1])
        elif word == ")" or (word == "end" and part.opened == "case"):
            inside.pop().end = token.end()
        elif not word.startswith("--"):
            part.items.append(token)
    return whole


def parts_of(part: Part) -> Iterator[Part]:
    """This part and every one inside of it that counts."""
    if not part.is_denied:
        yield part
        for item in part.items:
            if isinstance(item, Part):
                yield from parts_of(item)


def span(item: "re.Match[str] | Part") -> tuple[int, int]:
    """Where an item begins and ends."""
    return (item.start, item.end) if isinstance(item, Part) else item.span()


def branches_of(part: Part, text: str) -> Iterator[Cut]:
    """What is put together by `union all`: without one of them its rows are missing."""
    unions = [place for place in range(len(part.items)) if part.word(place) == "union"]
    if unions:
        tail = [place for place in range(unions[-1], len(part.items)) if part.word(place) == "order"]
        starts = [part.inner[0], *(span(part.items[place + 1])[1] for place in unions)]
        ends = [
            *(span(part.items[place])[0] for place in unions),
            span(part.items[tail[0]])[0] if tail else part.inner[1],
        ]
        for start, end in zip(starts, ends, strict=True):
            branch = text[start:end]
            yield Cut(start, end, branch, f" select * from ({branch}) as one_of_them where false ")


def operands_of(part: Part, text: str) -> Iterator[Cut]:
    """What is joined by `or`: without one of them it is false."""
    for clause in clauses_of(part):
        ors = [place for place in clause if part.word(place) == "or"]
        if ors:
            firsts = [clause.start, *(place + 1 for place in ors)]
            lasts = [*(place - 1 for place in ors), clause.stop - 1]
            for first, last in zip(firsts, lasts, strict=True):
                start, end = span(part.items[first])[0], span(part.items[last])[1]
                yield Cut(start, end, text[start:end], "false")


def clauses_of(part: Part) -> Iterator[range]:
    """Which items make one condition: what follows `where` and its like, or all that stands in brackets."""
    start = 0
    for place in range(len(part.items) + 1):
        if place == len(part.items) or part.ends(place):
            if place > start and (start == 0 or part.word(start - 1) in CLAUSES):
                yield range(start, place)
            start = place + 1


def columns_of(part: Part, text: str) -> Iterator[Cut]:
    """What is compared column by column: without one of them the others still are."""
    for place in range(1, len(part.items) - 3):
        before, after = part.items[place - 1], part.items[place + 3]
        is_asked = tuple(part.word(place + nth) for nth in range(3)) == DISTINCT
        if is_asked and isinstance(before, Part) and isinstance(after, Part):
            pairs = list(zip(values_of(before, text), values_of(after, text), strict=True))
            for pair in pairs if len(pairs) > 1 else []:
                ours, theirs = zip(*(other for other in pairs if other != pair), strict=True)
                instead = f"(({', '.join(ours)}) is distinct from ({', '.join(theirs)}))"
                yield Cut(before.start, after.end, f"{pair[0]} is distinct from {pair[1]}", instead)


def values_of(part: Part, text: str) -> list[str]:
    """What stands in brackets, divided by commas."""
    start, end = part.inner
    commas = [span(part.items[place]) for place in range(len(part.items)) if part.word(place) == ","]
    starts, ends = [start, *(stop for _, stop in commas)], [*(begin for begin, _ in commas), end]
    return [text[begin:stop].strip() for begin, stop in zip(starts, ends, strict=True)]


def cases_of(part: Part, text: str) -> Iterator[Cut]:
    """What a condition asks case by case: without one of them nothing is asked there."""
    for place, item in enumerate(part.items):
        is_condition = part.word(place - 1) in ("where", "or", "and", "")
        is_whole = part.word(place + 1) in {"or", "and", "", *ENDS}
        if isinstance(item, Part) and item.opened == "case" and is_condition and is_whole and not item.is_denied:
            for clause in clauses_of(item):
                if clause.start and item.word(clause.start - 1) in ("then", "else"):
                    # The words of one case end where the next one begins.
                    last = next((nth for nth in clause if item.word(nth) == "when"), clause.stop) - 1
                    start, end = span(item.items[clause.start])[0], span(item.items[last])[1]
                    if item.word(clause.start) != "false":
                        yield Cut(start, end, text[start:end], "false")
