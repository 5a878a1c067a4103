# ruff: noqa: RUF001 (the commas and colons of Chinese)
"""Check notifications against the visible lines of two days, sharing no code with what writes them.

The rules. A sentence is about one line of the schedule. It names everything that changed in that line and nothing else:
times, cancellation, customer, work, address; customer and work may also be named as the full title. Parts that a line
never had are not named. A line that became a mere cancellation need not name the work that it no longer has. Where
another line, before or after, starts at the old or new start of this one, the sentence names title and address. Lines
without a sentence are unchanged, and no two sentences are equal: from the day before and the sentences follows the day
after.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

from tests.support.ingest.seen_days import Seen

DAY = "2026-02-10"
TIMES = r"(?P<from>\d\d:\d\d)–(?P<to>\d\d:\d\d)"
PHRASES: Mapping[str, Mapping[str, str]] = {
    "en": {
        "new": rf"New shift on {DAY}: {TIMES}, (?P<line>.+)\.",
        "gone": rf"Shift removed on {DAY}: {TIMES}, (?P<line>.+)\.",
        "one": rf"The (?P<from>\d\d:\d\d) shift on {DAY} (?P<claims>.+)\.",
        "of several": rf"The {TIMES} shift on {DAY} \((?P<line>.+?)\) (?P<claims>.+)\.",
        "and": "; it ",
        "cancelled": "is cancelled",
        "not cancelled": "is no longer cancelled",
        "start": "now starts at (.+)",
        "end": "now ends at (.+)",
        "times": "is now (.+–.+)",
        "customer": "is now for (.+)",
        "no customer": "is no longer for (.+)",
        "title": "is now “(.+)”",
        "address": "now has the address (.+)",
        "no address": "no longer has the address (.+)",
    },
    "sv": {
        "new": rf"Nytt pass den {DAY}: {TIMES}, (?P<line>.+)\.",
        "gone": rf"Borttaget pass den {DAY}: {TIMES}, (?P<line>.+)\.",
        "one": rf"Passet (?P<from>\d\d:\d\d) den {DAY} (?P<claims>.+)\.",
        "of several": rf"Passet {TIMES} den {DAY} \((?P<line>.+?)\) (?P<claims>.+)\.",
        "and": "; det ",
        "cancelled": "är avbokat",
        "not cancelled": "är inte längre avbokat",
        "start": "börjar nu (.+)",
        "end": "slutar nu (.+)",
        "times": "är nu (.+–.+)",
        "customer": "är nu hos (.+)",
        "no customer": "är inte längre hos (.+)",
        "title": "är nu ”(.+)”",
        "address": "har nu adressen (.+)",
        "no address": "har inte längre adressen (.+)",
    },
    "zh": {
        "new": rf"{DAY} 新增班次：{TIMES}, (?P<line>.+)。",
        "gone": rf"{DAY} 删除班次：{TIMES}, (?P<line>.+)。",
        "one": rf"{DAY} (?P<from>\d\d:\d\d) 的班次：(?P<claims>.+)。",
        "of several": rf"{DAY} {TIMES} 的班次（(?P<line>.+?)）：(?P<claims>.+)。",
        "and": "；",
        "cancelled": "已取消",
        "not cancelled": "不再取消",
        "start": "改为 (.+) 开始",
        "end": "改为 (.+) 结束",
        "times": "改为 (.+–.+)",
        "customer": "客户改为 (.+)",
        "no customer": "客户不再是 (.+)",
        "title": "改为“(.+)”",
        "address": "地址改为 (.+)",
        "no address": "不再有地址 (.+)",
    },
}
CLAIMS = (
    "cancelled", "not cancelled", "start", "end", "times", "title", "customer", "no customer", "address", "no address",
)  # fmt: skip


def find_faults(before: Sequence[Seen], after: Sequence[Seen], sentences: Sequence[str], language: str) -> list[str]:
    """Return what is wrong with the sentences about the change from one day to the next."""
    if len({*sentences}) < len(sentences):
        return [f"a sentence appears twice: {sentences}"]
    if any(not any(readings(before, after, each, language)) for each in sentences):
        return [f"untrue: {each}" for each in sentences if not any(readings(before, after, each, language))]
    if is_explained(before, after, [*sentences], language, [*before], [*after]):
        return []
    return [f"{before} -> {after} is not what the sentences say: {sentences}"]


def is_explained(
    before: Sequence[Seen], after: Sequence[Seen], sentences: list[str], language: str, old: list[Seen], new: list[Seen]
) -> bool:
    """Check whether every sentence can be assigned a line of its own so that all other lines are unchanged."""
    if not sentences:
        return {*old} == {*new}
    for one, other in readings(before, after, sentences[0], language):
        if (one is None or one in old) and (other is None or other in new):
            rest = [line for line in old if line != one], [line for line in new if line != other]
            if is_explained(before, after, sentences[1:], language, *rest):
                return True
    return False


def readings(
    before: Sequence[Seen], after: Sequence[Seen], sentence: str, language: str
) -> Iterator[tuple[Seen | None, Seen | None]]:
    """Yield the changes of a line that a sentence describes completely and correctly."""
    phrases = PHRASES[language]
    if found := re.fullmatch(phrases["new"], sentence):
        yield from ((None, line) for line in after if line not in before and is_line(line, found))
    elif found := re.fullmatch(phrases["gone"], sentence):
        yield from ((line, None) for line in before if line not in after and is_line(line, found))
    elif found := re.fullmatch(phrases["of several"], sentence) or re.fullmatch(phrases["one"], sentence):
        named = "line" in found.groupdict()
        claims = parse_claims(found["claims"], phrases)
        for one in before:
            if one.start == found["from"] and (not named or is_line(one, found)):
                for other in after:
                    if (named or not others_begin_with(one, other, before, after)) and is_described(one, other, claims):
                        yield one, other


def is_line(line: Seen, found: re.Match[str]) -> bool:
    """Check whether a sentence names this line, by times, title and address."""
    names = {bare(f"{line.title} {address}") for address in possible_addresses(line)}
    return (line.start, line.end) == (found["from"], found["to"]) and bare(found["line"]) in names


def others_begin_with(one: Seen, other: Seen, before: Sequence[Seen], after: Sequence[Seen]) -> bool:
    """Check whether another line starts when one of these does."""
    return any(line.start in (one.start, other.start) for line in (*before, *after) if line not in (one, other))


def parse_claims(text: str, phrases: Mapping[str, str]) -> list[tuple[str, str]] | None:
    """Return the claims of a sentence with their values; None when a part of it is unknown."""
    claims: list[tuple[str, str]] = []
    for part in text.split(phrases["and"]):
        found = next(((name, match) for name in CLAIMS if (match := re.fullmatch(phrases[name], part))), None)
        if found is None:
            return None
        claims.append((found[0], found[1][1] if found[1].groups() else ""))
    return claims


def is_described(one: Seen, other: Seen, claims: list[tuple[str, str]] | None) -> bool:
    """Check that every claim is true and about a difference, and that every difference is claimed."""
    if not claims or len(claims) != len(dict(claims)):
        return False
    covered: set[str] = set()
    for name, value in claims:
        what = described_by(one, other, name, value)
        if not what:
            return False
        covered |= what
    return differences(one, other) <= covered


def differences(one: Seen, other: Seen) -> set[str]:
    """Return the visible differences of two lines."""
    found = {name for name in ("who", "what") if bare(getattr(one, name)) != bare(getattr(other, name))}
    found |= {"time"} if (one.start, one.end) != (other.start, other.end) else set()
    found |= {"mark"} if bool(one.mark) != bool(other.mark) else set()
    found |= {"place"} if location_key(one) != location_key(other) else set()
    if "mark" in found and other.mark and not other.what:
        found.discard("what")
    if not found & {"who", "what", "mark"} and bare(one.title) != bare(other.title):
        found.add("title")
    return found


def described_by(one: Seen, other: Seen, name: str, value: str) -> set[str]:
    """Return the differences that a claim covers; empty when it is untrue, or about an unchanged part."""
    is_true = {
        "cancelled": not one.mark and bool(other.mark),
        "not cancelled": bool(one.mark) and not other.mark,
        "start": one.start != other.start == value and one.end == other.end,
        "end": one.end != other.end == value and one.start == other.start,
        "times": one.start != other.start and one.end != other.end and value == f"{other.start}–{other.end}",
        "customer": bool(other.who) and bare(value) == bare(other.who) != bare(one.who),
        "no customer": not other.who and bool(one.who) and bare(value) == bare(one.who),
        "address": location_key(one) != location_key(other)
        and bare(value) in set(map(bare, possible_addresses(other))) - {""},
        "no address": location_key(one) != location_key(other) == ("",) * 5
        and bare(value) in map(bare, possible_addresses(one)),
    }
    if name == "title":
        if bare(value) == bare(other.title) != bare(one.title):
            return {"who", "what", "title"}
        return {"what"} if bare(value) == bare(other.what) != bare(one.what) else set()
    parts = {"cancelled": "mark", "not cancelled": "mark", "customer": "who", "no customer": "who"}
    parts |= {"address": "place", "no address": "place"}
    return {parts.get(name, "time")} if is_true[name] else set()


def location_key(line: Seen) -> tuple[str, ...]:
    """Return the parts of the address."""
    return line.street, line.number, line.detail, line.code, line.city


def possible_addresses(line: Seen) -> list[str]:
    """Return the address in every order of its parts."""
    parts = (f"{line.street} {line.number}", line.detail, f"{line.code} {line.city}")
    return [" ".join(each) for each in permutations(parts)]


def bare(text: str) -> str:
    """Return only letters and digits, in lower case and without accents."""
    plain = unicodedata.normalize("NFKD", text).casefold()
    return "".join(letter for letter in plain if letter.isalnum())
