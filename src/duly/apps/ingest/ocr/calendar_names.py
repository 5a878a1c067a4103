"""Parse names of months and weekdays in Swedish, English, German and Finnish, also slightly misread ones."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import lru_cache

from duly.apps.ingest.ocr.letters import fold

# All names are folded: lower case, without diacritics. Swedish and English months may be cut to 3 or 4 letters.
MONTHS = (
    ("januari", "january"), ("februari", "february"), ("mars", "march"), ("april",), ("maj", "may"), ("juni", "june"),
    ("juli", "july"), ("augusti", "august"), ("september",), ("oktober", "october"), ("november",),
    ("december",),
)  # fmt: skip
GERMAN_MONTHS = (
    ("januar", "janner"), ("februar", "feber"), ("marz", "maerz", "mrz"), (), ("mai",), (), (), (), (), (), (),
    ("dezember", "dez"),
)  # fmt: skip
FINNISH_MONTHS = (
    "tammi", "helmi", "maalis", "huhti", "touko", "kesa", "heina", "elo", "syys", "loka", "marras", "joulu",
)  # fmt: skip
DAY_FIRST_MONTHS = {name: nth for nth, names in enumerate(GERMAN_MONTHS, 1) for name in names} | {
    f"{name}{end}": nth for nth, name in enumerate(FINNISH_MONTHS, 1) for end in ("", "kuu", "kuuta", "kuussa", "k")
}
SWEDISH, ENGLISH, GERMAN, FINNISH = "sv", "en", "de", "fi"
WEEKDAYS = {
    SWEDISH: ("mandag man", "tisdag tis", "onsdag ons", "torsdag tor tors", "fredag fre", "lordag lor", "sondag son"),
    ENGLISH: (
        "monday mon", "tuesday tue tues", "wednesday wed", "thursday thu thur thurs", "friday fri", "saturday sat",
        "sunday sun",
    ),
    GERMAN: ("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag sonnabend", "sonntag"),
    FINNISH: (
        "maanantai maanantaina", "tiistai tiistaina", "keskiviikko keskiviikkona", "torstai torstaina",
        "perjantai perjantaina", "lauantai lauantaina", "sunnuntai sunnuntaina",
    ),
}  # fmt: skip
WEEKDAY_NAMES = {
    name: (nth, language)
    for language, days in WEEKDAYS.items()
    for nth, names in enumerate(days)
    for name in names.split()
}
# Two letters are a weekday only directly beside a date. Those that English has too do not decide if the day is first.
TWO_LETTER_WEEKDAYS = {
    "mo": 0, "di": 1, "mi": 2, "do": 3, "fr": 4, "sa": 5, "so": 6,
    "ma": 0, "ti": 1, "ke": 2, "to": 3, "pe": 4, "la": 5, "su": 6, "lo": 5,
}  # fmt: skip
ENGLISH_TWO_LETTERS = frozenset({"mo", "fr", "sa", "su"})
NOT_WEEKDAYS = frozenset({"frida", "montage"})  # a name and a task, similar to friday and montag
AMBIGUOUS_WEEKDAYS = frozenset({"fri", "man", "son", "lor", "tor"})  # also Swedish words and names
DAY_FIRST_RELATIVE_DAYS = frozenset(
    {"idag", "imorgon", "igar", "heute", "morgen", "gestern", "tanaan", "huomenna", "eilen"}
)
RELATIVE_DAYS = DAY_FIRST_RELATIVE_DAYS | {"today", "tomorrow", "yesterday"}
MIN_MISREAD_LENGTH = 5  # letters of a word that may be a misread name
MIN_MISREAD_NAME_LENGTH = {SWEDISH: 5, ENGLISH: 5, GERMAN: 7, FINNISH: 7}  # letters of that name
MIN_SIMILARITY = 0.8  # SequenceMatcher's ratio of the two


@lru_cache(maxsize=1024)
def parse_month(word: str) -> int | None:
    """Return 1 to 12 for the name of a month, abbreviated or slightly misread."""
    letters = fold(word)
    if len(letters) < 3 or not letters.isalpha():
        return None
    for nth, names in enumerate(MONTHS, 1):
        if any(name == letters or (len(letters) in (3, 4) and name.startswith(letters)) for name in names):
            return nth
    if letters in DAY_FIRST_MONTHS:
        return DAY_FIRST_MONTHS[letters]
    names = {name: nth for nth, names in enumerate(MONTHS, 1) for name in names}
    names |= {name: nth for name, nth in DAY_FIRST_MONTHS.items() if len(name) >= MIN_MISREAD_NAME_LENGTH[FINNISH]}
    similar = find_similar(letters, names)
    return names[similar] if similar else None


@lru_cache(maxsize=1024)
def parse_weekday(word: str) -> tuple[int, str] | None:
    """Return 0 (Monday) to 6 and the language for the name of a weekday, abbreviated or slightly misread."""
    letters = fold(word)
    if letters in WEEKDAY_NAMES or letters in NOT_WEEKDAYS:
        return WEEKDAY_NAMES.get(letters)
    names = [name for name, (_, language) in WEEKDAY_NAMES.items() if len(name) >= MIN_MISREAD_NAME_LENGTH[language]]
    similar = find_similar(letters, names)
    return WEEKDAY_NAMES[similar] if similar else None


def find_similar(letters: str, names: Iterable[str]) -> str | None:
    """Return the most similar name, if a word is long enough and one is similar enough."""
    if len(letters) < MIN_MISREAD_LENGTH:
        return None
    near = {name: similarity(letters, name) for name in names if abs(len(letters) - len(name)) <= 1}
    best = max(near, key=lambda name: near[name], default=None)
    return best if best and near[best] >= MIN_SIMILARITY else None


def similarity(letters: str, name: str) -> float:
    """Return how similar two words are, from 0 to 1."""
    return SequenceMatcher(None, letters, name, autojunk=False).ratio()
