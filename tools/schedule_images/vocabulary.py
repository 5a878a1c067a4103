"""Invent titles, customers and locations: names are built from syllables, so that no word list has them.

What a person cannot tell apart is not built: rn and m, cl and d in a small font, and I and l at the
beginning of a name.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from duly.apps.ingest.ocr.letters import known_words
from tools.schedule_images.dates import split

LANGUAGES = ("sv", "en", "de", "fi")
ONSETS: Mapping[str, Sequence[str]] = {
    "sv": split("b br d dr f fl fr g gr h k kl kn kr kv l m mj n p pl pr r s sk skr sl sm sn st str sv t tr tv v"),
    "en": split("b bl br c cr d dr f fl fr g gl gr h k l m n p pl pr qu r s sc sh sl sp st str t th tr w wh"),
    "de": split("b br d dr f fl g gr h k kl kn kr l m n p pf pl r s sch schl schw st t tr w z zw"),
    "fi": split("h j k l m n p r s t v h j k l m n p r s t v kr tr pl"),
}  # fmt: skip
VOWELS: Mapping[str, Sequence[str]] = {
    "sv": split("a a a e e e i i o o u u y å ä ö"),
    "en": split("a a e e i o o u ea oa ay"),
    "de": split("a a e e e i o o u u ei au ie ä ö ü"),
    "fi": split("a a a e e i i o o u u aa uo ai ie"),
}
FINNISH_FRONT = split("ä ä ä e e i i ö ö y y ää yö äi ie")
CODAS: Mapping[str, Sequence[str]] = {
    "sv": split("l n r s t k m d g ld lm nd rs sk st lt rk ns"),
    "en": split("l n r s t m d ck lt nd rd st ft rk mp"),
    "de": split("l n r s t m ld lm nd rt rk ns lz tz cht"),
    "fi": split("l n r s t h"),
}
PLACE_ENDINGS: Mapping[str, Sequence[str]] = {
    "sv": split("vik stad torp hult by sjö dal lund mark gård fors näs bo"),
    "en": split("ton ley wick ford combe stead ham mere"),
    "de": split("hausen dorf feld tal bach brück rode stett"),
    "fi": split("mäki lahti niemi järvi koski la salo ranta"),
}
SURNAME_ENDINGS: Mapping[str, Sequence[str]] = {
    "sv": split("löf gren kvist stedt man ell in berg ström"),
    "en": split("ley son man by ton er shaw"),
    "de": split("mann er ke ling hof bauer el"),
    "fi": split("nen la mäki nen koski sto"),
}
FIRST_NAMES: Mapping[str, Sequence[str]] = {
    "sv": ("Anna", "Erik", "Karin", "Bo", "Märta", "Åke", "Ulla", "Sven", "Gunilla", "Olle"),
    "en": ("Mary", "John", "Helen", "Peter", "Ruth", "Alan", "Joan", "Keith"),
    "de": ("Heike", "Jürgen", "Ute", "Dieter", "Anke", "Bernd", "Käthe", "Uwe"),
    "fi": ("Aino", "Eero", "Kaisa", "Matti", "Päivi", "Tuomo", "Väinö", "Outi"),
}
COMPANIES: Mapping[str, Sequence[str]] = {
    "sv": ("{} AB", "Brf {}", "Förskolan {}", "{} Bygg AB", "Café {}", "Familjen {}", "{} HB"),
    "en": ("{} Ltd", "{} House", "Café {}", "{} & Sons", "{} Care Home"),
    "de": ("{} GmbH", "Familie {}", "Café {}", "Praxis {}", "Haus {}"),
    "fi": ("{} Oy", "Kahvila {}", "Perhe {}", "As Oy {}"),
}
STREETS: Mapping[str, Sequence[str]] = {
    "sv": ("{}gatan {}", "{}vägen {}", "{}stigen {}", "{}gränd {}"),
    "en": ("{1} {0} Road", "{1} {0} Lane", "{1} {0} Street", "{1} {0} Close"),
    "de": ("{}straße {}", "{}weg {}", "{}allee {}"),
    "fi": ("{}katu {}", "{}tie {}", "{}kuja {}"),
}
ACTIVITIES: Mapping[str, Sequence[str]] = {
    "sv": (
        "Städning", "Möte", "Lunch", "Tillsyn", "Medicin", "Dusch", "Inköp", "Promenad", "Frukost", "Tvätt",
        "Fönsterputs", "Matlagning", "Utbildning", "Storstädning", "Trappstädning", "Hemtjänst",
    ),
    "en": (
        "Cleaning", "Meeting", "Lunch", "Medication", "Laundry", "Shopping", "Window cleaning", "Breakfast", "Walk",
        "Home care", "Training", "Deep cleaning", "Cooking",
    ),
    "de": (
        "Reinigung", "Besprechung", "Mittagspause", "Grundpflege", "Einkauf", "Wäsche", "Fensterputzen", "Frühstück",
        "Schulung", "Büroreinigung", "Spaziergang", "Hausbesuch",
    ),
    "fi": (
        "Siivous", "Kokous", "Lounas", "Lääkkeet", "Pyykki", "Ruokailu", "Suihku", "Ikkunanpesu", "Aamiainen",
        "Kotihoito", "Koulutus", "Kävely", "Suursiivous",
    ),
}  # fmt: skip
PEOPLE = {"sv": "2 pers", "en": "2 staff", "de": "2 Pers.", "fi": "2 hlö"}
AND = {"sv": "och", "en": "and", "de": "und", "fi": "ja"}
POSTCODES = {"sv": "{:03d} {:02d} {}", "de": "{:03d}{:02d} {}", "fi": "{:03d}{:02d} {}"}


@cache
def listed_words() -> frozenset[str]:
    """Return the words that the reader knows, in small letters."""
    spellings, _, _ = known_words()
    return frozenset(word.casefold() for words in spellings.values() for word in words)


def unlisted(make: Callable[[], str]) -> str:
    """Return a made name that the reader's list of words has not."""
    while (name := make()).casefold() in listed_words():
        pass
    return name


@dataclass(frozen=True)
class Words:
    """Texts of a language, drawn from a random generator."""

    rng: random.Random
    language: str

    def title(self) -> str:
        """Return an activity, mostly with an invented detail."""
        activity = self.rng.choice(ACTIVITIES[self.language])
        forms: Sequence[Callable[[], str]] = (
            lambda: activity,
            lambda: f"{activity} {self.name()}",
            lambda: f"{activity} ({self.name().lower()})",
            lambda: f"{activity}, {self.name().lower()}",
            lambda: f"{activity} ({PEOPLE[self.language]})",
            lambda: f"{activity} {self.name()} {self.rng.randint(2, 9)}",
        )
        return self.rng.choice(forms)()

    def long_title(self) -> str:
        """Return a title that takes two lines."""
        first, second = self.rng.sample(ACTIVITIES[self.language], 2)
        if self.language != "de":  # German nouns keep their capital
            second = second.lower()
        end = self.rng.choice((f" {self.name()}", f", {self.name().lower()}", f" ({self.name().lower()})", ""))
        middle = self.rng.choice(("", "", f" {self.name()}"))
        return f"{first}{middle} {AND[self.language]} {second}{end}"

    def customer(self) -> str:
        """Return a person or a company."""
        if self.rng.random() < 0.3:
            return self.rng.choice(COMPANIES[self.language]).format(self.name())
        return self.person()

    def person(self) -> str:
        """Return a first name, invented or usual, with an invented surname."""
        first = self.rng.choice(FIRST_NAMES[self.language]) if self.rng.random() < 0.4 else self.name()
        return f"{first} {self.surname()}"

    def location(self) -> str:
        """Return a place, or a street with a number."""
        return self.place() if self.rng.random() < 0.5 else self.street()

    def address(self) -> str:
        """Return a street with number, postcode and place."""
        if self.language == "en":
            return f"{self.street()}, {self.place()}"
        left, right = self.rng.randint(101, 989), self.rng.randint(10, 98)
        return f"{self.street()}, {POSTCODES[self.language].format(left, right, self.place())}"

    def street(self) -> str:
        """Return a street with a number."""
        number = f"{self.rng.randint(1, 98)}{self.rng.choice(('', '', '', 'A', 'B'))}"
        return self.rng.choice(STREETS[self.language]).format(self.stem().capitalize(), number)

    def place(self) -> str:
        """Return an invented place."""
        return unlisted(self._place)

    def _place(self) -> str:
        if self.rng.random() < 0.25:
            return self.name()
        stem = self.stem()
        return (stem + self.ending(PLACE_ENDINGS[self.language], stem)).capitalize()

    def surname(self) -> str:
        """Return an invented surname."""
        return unlisted(self._surname)

    def _surname(self) -> str:
        if self.rng.random() < 0.3:
            return self.name()
        stem = self.stem()
        return (stem + self.ending(SURNAME_ENDINGS[self.language], stem)).capitalize()

    def name(self) -> str:
        """Return a short invented name: Bua, Altan, Brenva."""
        return unlisted(self._name)

    def _name(self) -> str:
        stem = self.stem()
        end = self.rng.choice(("a", "o", "an", "e", "in", "us", "ola", "en", "ia"))
        return (stem + end).capitalize()

    def stem(self) -> str:
        """Return one or two syllables that end in a consonant."""
        vowels = VOWELS[self.language]
        if self.language == "fi" and self.rng.random() < 0.3:
            vowels = FINNISH_FRONT
        first = "" if self.rng.random() < 0.1 else self.rng.choice(ONSETS[self.language])
        text = first + self.rng.choice(vowels if first else [vowel for vowel in vowels if vowel[0] != "i"])
        if self.rng.random() < 0.4 or len(text) < 2:
            text += self.rng.choice([coda for coda in CODAS[self.language] if len(coda) == 1])
            text += self.rng.choice(vowels[:8])
        return text + self.rng.choice(CODAS[self.language])

    def ending(self, endings: Sequence[str], stem: str) -> str:
        """Return an ending that makes no letter pair that reads as another letter, and no triple letter."""
        usable = [
            end for end in endings if f"{stem[-1]}{end[0]}" not in ("rn", "rm", "nn", "cl") and stem[-1] != end[0]
        ]
        return self.rng.choice(usable)
