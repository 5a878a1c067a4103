"""The branches of an invariant: every violation that its statement looks for, and the statement without one of them.

An invariant has an `or`, a `union all` over several tables, a `case`, or a comparison of several columns. Each of these
is a branch. A violation that is found without a branch does not test it: for every branch there must be one that is
found by that branch alone.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|%%|%\(\w+\)s|\w+|[(),]|<>|\S")
CLAUSES = {"where", "having", "on", "when", "then", "else"}
ENDS = {"select", "from", "join", "left", "full", "cross", "union", "group", "window", "order", "offset", "limit"}
DISTINCT = ("is", "distinct", "from")


@dataclass(frozen=True)
class Branch:
    """One violation of an invariant: its text, and the full statement without it."""

    text: str
    without: str


@dataclass(frozen=True)
class Cut:
    """Where an arm stands, how it reads, and what stands there instead when it is switched off."""

    start: int
    end: int
    text: str
    replacement: str


@dataclass
class Part:
    """What stands in one pair of brackets, or between `case` and `end`: tokens, and parts inside of it."""

    opened: str
    start: int
    end: int = 0
    is_negated: bool = False  # inside of `not exists (...)`: less of it finds more
    items: list["re.Match[str] | Part"] = field(default_factory=list["re.Match[str] | Part"])

    @property
    def inner(self) -> tuple[int, int]:
        """Where what is inside begins and ends."""
        closed = {"(": 1, "case": 3}.get(self.opened, 0)
        return self.start + len(self.opened), self.end - closed

    def keyword(self, index: int) -> str:
        """The word at this place; nothing where there is none, or a part."""
        if not 0 <= index < len(self.items):
            return ""
        item = self.items[index]
        return "" if isinstance(item, Part) else item[0].lower()

    def ends(self, index: int) -> bool:
        """Does a condition end here? The `from` of `is distinct from` ends none."""
        return self.keyword(index) in ENDS | CLAUSES and self.keyword(index - 1) != "distinct"


def find_branches(statement: str) -> Sequence[Branch]:
    """Every arm of a statement, in the order in which they stand there."""
    text = "\n".join(line for line in statement.splitlines() if not line.startswith("-- ")).rstrip().rstrip(";")
    found: list[Cut] = []
    for part in searchable_parts(parse(text)):
        found += [
            *union_branches(part, text),
            *or_operands(part, text),
            *compared_columns(part, text),
            *case_results(part, text),
        ]
    return [
        Branch(" ".join(cut.text.split()), text[: cut.start] + cut.replacement + text[cut.end :])
        for cut in sorted(found, key=lambda cut: cut.start)
    ]


def parse(text: str) -> Part:
    """The statement as parts inside of parts."""
    whole = Part("", 0, len(text))
    open_parts = [whole]
    for token in TOKEN.finditer(text):
        keyword, part = token[0].lower(), open_parts[-1]
        if keyword in ("(", "case"):
            last = len(part.items)
            is_negated = part.keyword(last - 1) == "exists" and part.keyword(last - 2) == "not"
            open_parts.append(Part(keyword, token.start(), is_negated=part.is_negated or is_negated))
            part.items.append(open_parts[-1])
        elif keyword == ")" or (keyword == "end" and part.opened == "case"):
            open_parts.pop().end = token.end()
        elif not keyword.startswith("--"):
            part.items.append(token)
    return whole


def searchable_parts(part: Part) -> Iterator[Part]:
    """This part and every one inside of it that counts."""
    if not part.is_negated:
        yield part
        for item in part.items:
            if isinstance(item, Part):
                yield from searchable_parts(item)


def span(item: "re.Match[str] | Part") -> tuple[int, int]:
    """Where an item begins and ends."""
    return (item.start, item.end) if isinstance(item, Part) else item.span()


def union_branches(part: Part, text: str) -> Iterator[Cut]:
    """What is put together by `union all`: without one of them its rows are missing."""
    unions = [index for index in range(len(part.items)) if part.keyword(index) == "union"]
    if unions:
        tail = [index for index in range(unions[-1], len(part.items)) if part.keyword(index) == "order"]
        starts = [part.inner[0], *(span(part.items[index + 1])[1] for index in unions)]
        ends = [
            *(span(part.items[index])[0] for index in unions),
            span(part.items[tail[0]])[0] if tail else part.inner[1],
        ]
        for start, end in zip(starts, ends, strict=True):
            branch = text[start:end]
            yield Cut(start, end, branch, f" select * from ({branch}) as one_of_them where false ")


def or_operands(part: Part, text: str) -> Iterator[Cut]:
    """What is joined by `or`: without one of them it is false."""
    for clause in condition_ranges(part):
        ors = [index for index in clause if part.keyword(index) == "or"]
        if ors:
            firsts = [clause.start, *(index + 1 for index in ors)]
            lasts = [*(index - 1 for index in ors), clause.stop - 1]
            for first, last in zip(firsts, lasts, strict=True):
                start, end = span(part.items[first])[0], span(part.items[last])[1]
                yield Cut(start, end, text[start:end], "false")


def condition_ranges(part: Part) -> Iterator[range]:
    """Which items make one condition: what follows `where` and its like, or all that stands in brackets."""
    start = 0
    for index in range(len(part.items) + 1):
        if index == len(part.items) or part.ends(index):
            if index > start and (start == 0 or part.keyword(start - 1) in CLAUSES):
                yield range(start, index)
            start = index + 1


def compared_columns(part: Part, text: str) -> Iterator[Cut]:
    """What is compared column by column: without one of them the others still are."""
    for index in range(1, len(part.items) - 3):
        before, after = part.items[index - 1], part.items[index + 3]
        is_comparison = tuple(part.keyword(index + nth) for nth in range(3)) == DISTINCT
        if is_comparison and isinstance(before, Part) and isinstance(after, Part):
            pairs = list(zip(list_values(before, text), list_values(after, text), strict=True))
            for pair in pairs if len(pairs) > 1 else []:
                left, right = zip(*(other for other in pairs if other != pair), strict=True)
                replacement = f"(({', '.join(left)}) is distinct from ({', '.join(right)}))"
                yield Cut(before.start, after.end, f"{pair[0]} is distinct from {pair[1]}", replacement)


def list_values(part: Part, text: str) -> list[str]:
    """What stands in brackets, divided by commas."""
    start, end = part.inner
    commas = [span(part.items[index]) for index in range(len(part.items)) if part.keyword(index) == ","]
    starts, ends = [start, *(stop for _, stop in commas)], [*(begin for begin, _ in commas), end]
    return [text[begin:stop].strip() for begin, stop in zip(starts, ends, strict=True)]


def case_results(part: Part, text: str) -> Iterator[Cut]:
    """What a condition asks case by case: without one of them nothing is asked there."""
    for index, item in enumerate(part.items):
        is_condition = part.keyword(index - 1) in ("where", "or", "and", "")
        is_whole = part.keyword(index + 1) in {"or", "and", "", *ENDS}
        if isinstance(item, Part) and item.opened == "case" and is_condition and is_whole and not item.is_negated:
            for clause in condition_ranges(item):
                if clause.start and item.keyword(clause.start - 1) in ("then", "else"):
                    # The words of one case end where the next one begins.
                    last = next((nth for nth in clause if item.keyword(nth) == "when"), clause.stop) - 1
                    start, end = span(item.items[clause.start])[0], span(item.items[last])[1]
                    if item.keyword(clause.start) != "false":
                        yield Cut(start, end, text[start:end], "false")
