"""What a caption says: in which language, how pleasant, how loudly.

VADER reads English. A Swedish caption is scored by the same engine with a Swedish lexicon, after its few small words
that strengthen, weaken or turn around were put in English, for those the engine knows by heart.
"""

import hashlib
import re
import string
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any, NamedTuple, Protocol

from duly.apps.posts.model import MAX_CAPTION_LENGTH

__all__ = ["Language", "Words", "language_of", "read_caption", "tidy"]

EMPHASIS = 0.15  # of an exclamation mark, at most three, and of delight
DELIGHT = 0.60


class Language(StrEnum):
    """The languages these rules know."""

    ENGLISH = "English"
    SWEDISH = "Swedish"


@dataclass(frozen=True, slots=True)
class Words:
    """What a caption says: how pleasant it is, from -1 to 1, and how loudly it says so."""

    language: Language | None
    valence: float
    exclamations: int
    digest: bytes
    is_empty: bool

    @property
    def emphasis(self) -> float:
        """What the caption adds to arousal; delight wakes up, grief does not."""
        return EMPHASIS * (min(self.exclamations, 3) + (self.valence >= DELIGHT))

    def describe(self) -> str:
        """What was seen, in a sentence."""
        if self.is_empty:
            return "There is no caption."
        language = f"reads as {self.language}" if self.language else "is in no language these rules can tell"
        marks = f"{self.exclamations} exclamation mark{'' if self.exclamations == 1 else 's'}"
        return f"The caption {language}; its words score {self.valence:+.2f} (-1 to 1), with {marks}."


def tidy(number: float) -> float:
    """Two decimals, and no minus before a zero."""
    return round(number, 2) + 0.0


# The language --------------------------------------------------------------------------------------------------------

WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
NO_NEGATION = re.compile(
    r"\b(?:(?:can'?t|cannot|couldn'?t|could not) (?:wait|believe|stop|be)"
    r"|(?:kan|kunde) inte (?:vänta|tro|fatta|förstå|sluta|vara|bli))\b",
    re.IGNORECASE,
)  # said of what is more than one can grasp
SWEDISH_LETTER = re.compile("[åäö]")
SWEDISH_SMALL_WORDS = """
    och att det inte jag som med av till den har vi min mitt mina om du en ett kan ska var vad hos eller bara mycket sig
    sin sitt hur han hon oss mig dig ni blir blev vara varit efter igen alla allt ingen inget inga aldrig utan hem hemma
    nu sen sedan vill ville fick kommer kom tar tog lite helt mot hela ut upp ner lika detta denna dessa dag dagen idag
    imorgon morgon natt vecka sommar vinter jobbet barnen kul bra fin fint
"""
ENGLISH_SMALL_WORDS = """
    the and is it its it's to of a an my you your this that these those was were with for not but be been being have has
    had we our they their he she his her him i'm im i've i'll can't cant don't dont didn't isn't wasn't won't never what
    when where who why how which so too on at from by as or if just me us do does did will would could should there here
    are am no very really into out up about after again all any some more most than then now today tonight tomorrow day
    days night morning week time good best ever love happy
"""
SWEDISH_WORDS = frozenset(SWEDISH_SMALL_WORDS.split())
ENGLISH_WORDS = frozenset(ENGLISH_SMALL_WORDS.split())


def language_of(text: str) -> Language | None:
    """The language that more of the words belong to, by the small words and by å, ä and ö; None when neither leads."""
    words = WORD.findall(text.lower())
    swedish = sum(word in SWEDISH_WORDS or bool(SWEDISH_LETTER.search(word)) for word in words)
    english = sum(word in ENGLISH_WORDS for word in words)
    if swedish == english:
        return None
    return Language.SWEDISH if swedish > english else Language.ENGLISH


def read_caption(caption: str) -> Words:
    """What a caption says, in whichever language it says more when its language cannot be told."""
    caption = caption[:MAX_CAPTION_LENGTH]
    text = plain(caption)
    language = language_of(text)
    if language:
        valence = score_of(text, language)
    else:
        language, valence = stronger(text)
    digest = hashlib.sha256(caption.encode("utf-8", "surrogatepass")).digest()
    return Words(language, valence, text.count("!"), digest, not text.strip())


def stronger(text: str) -> tuple[Language | None, float]:
    """The language in which a text says more, and what it says; none when it says the same in all."""
    scores = {language: score_of(text, language) for language in Language}
    language = max(scores, key=lambda each: abs(scores[each]))
    return (language if len(set(scores.values())) > 1 else None), scores[language]


def score_of(text: str, language: Language) -> float:
    """How pleasant a text is in a language, from -1 to 1."""
    engine = engine_of(language)
    said = NO_NEGATION.sub(" ", text)
    if language is Language.SWEDISH:
        said = in_english_order(said, engine.lexicon)
    return tidy(engine.polarity_scores(said)["compound"])


# An emoji means the same in every language; the values are on the lexicons' scale, from -4 to 4.
FEELINGS = {
    2.7: "❤🧡💛💚💙💜🤎🖤🤍🩷🩵♥💕💞💓💗💖💘💝😍🥰😘😻",
    2.0: "😀😃😄😁😆😊🙂☺😎🤗🥳🎉🎊🎂🤩😌😇🙌",
    1.5: "😂🤣😹😜😋😉",
    1.3: "👍👏💪✨☀🌞🌈🙏🔥🏆🥇💯🌟⭐🫶",
    -1.5: "👎🤢🤮😒🙄🤒🤕😷",
    -1.7: "😔😞😟🙁☹😩😫😖😣😥😓😕🥺",
    -2.0: "😱😨😰😧",
    -2.2: "💔😭😢😿🥀",
    -2.6: "😡😠🤬👿💢",
}
EMOJI = {sign: value for value, signs in FEELINGS.items() for sign in signs}
QUOTES = dict.fromkeys("\u2018\u2019\u201b\u00b4`", "'") | dict.fromkeys("\u201c\u201d\u201e«»\u2013\u2014", " ")
JOINERS = dict.fromkeys("\N{ZERO WIDTH JOINER}", " ") | dict.fromkeys(
    "\N{VARIATION SELECTOR-15}\N{VARIATION SELECTOR-16}\N{ZERO WIDTH SPACE}\N{LEFT-TO-RIGHT MARK}\N{RIGHT-TO-LEFT MARK}"
    "\N{WORD JOINER}\N{ZERO WIDTH NO-BREAK SPACE}\N{SOFT HYPHEN}\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff",
    "",
)
SIGNS = str.maketrans(QUOTES | JOINERS | {sign: f" {sign} " for sign in EMOJI})


def plain(caption: str) -> str:
    """A caption in the letters lexicons are written in, with every emoji a word of its own."""
    return unicodedata.normalize("NFKC", caption.translate(SIGNS))[:MAX_CAPTION_LENGTH]


# Swedish --------------------------------------------------------------------------------------------------------------

SMALL_WORDS = {
    "not": "inte ej icke knappast ingen inget inga ingenting",
    "never": "aldrig",
    "neither": "varken",
    "without": "utan",
    "doubt": "tvekan tvivel",
    "seldom": "sällan",
    "despite": "trots",
    "but": "men fast",
    "so": "så",
    "very": "mycket väldigt riktigt verkligen otroligt extremt oerhört enormt helt grymt sjukt särskilt totalt absolut",
    "quite": "ganska",
    "hardly": "knappt",
    "slightly": "lite litet någorlunda",
    "almost": "nästan",
}
ENGLISH_FOR = {swedish: english for english, words in SMALL_WORDS.items() for swedish in words.split()}
AFTER_THE_VERB = frozenset({"inte", "ej", "icke", "aldrig"})
BETWEEN = frozenset({"mig", "dig", "honom", "henne", "det", "den", "oss", "er", "dem", "detta", "sig"})
VERB_ENDINGS = ("r", "s", "de", "te")
STRONG_BEGINNINGS = ("jätte", "super", "skit", "as")
MISSING = {
    2.4: "kul skönt mysig mysiga mys toppen trevligt roliga underbara lyckliga kär magisk magiskt magiska lyckad "
    "lyckat perfekta njöt trivs kärleken",
    1.8: "god gott goda godaste snygg snygga stolta cool häftig mäktig mäktigt najs nice trygg trygghet rofylld "
    "rofyllt frid ledig läckert fräsch fräscht orkar",
    -1.7: "jobbigt jobbiga tråkiga tråk dystert vemod vemodig vemodigt saknad sakna tungt stressigt kaotiskt bråk "
    "förkyld ensamma arga ledsna dåliga utbränd",
    -2.5: "sämst sämsta sorglig sorgligt deppig deppigt uselt vidrigt läskig läskigt ångesten fördjävligt begravningen "
    "krossat",
}
MISTRANSLATED = frozenset({"stor", "ny", "tycker"})  # as if they were great, novel and doubts


def swedish_lexicon() -> dict[str, float]:
    """The Swedish lexicon, with everyday words it lacks and without some that it got wrong."""
    found = lexicon_at("duly.apps.posts", "lexicon/sv.txt")
    found |= {word: value for value, words in MISSING.items() for word in words.split()}
    return {word: value for word, value in found.items() if word not in MISTRANSLATED}


def in_english_order(text: str, lexicon: dict[str, float]) -> str:
    """A Swedish text with its small words in English, where and as the engine looks for them."""
    tokens = text.split()
    for place, token in enumerate(tokens):
        if token.strip(string.punctuation).lower() in AFTER_THE_VERB:
            tokens.insert(verb_before(tokens, place, lexicon), tokens.pop(place))
    return " ".join(in_english(token, lexicon) for token in tokens)


def verb_before(tokens: list[str], place: int, lexicon: dict[str, float]) -> int:
    """The place of the verb that the negator at this place turns around ("gillar det inte"), or else this place."""
    verb = place - 1
    if verb > 0 and tokens[verb].lower() in BETWEEN:
        verb -= 1
    found = tokens[verb].lower() if verb >= 0 else ""
    return verb if found in lexicon and found.endswith(VERB_ENDINGS) else place


def in_english(token: str, lexicon: dict[str, float]) -> str:
    """A small word in English, a word with a strong beginning as two; any other as it is."""
    core = token.strip(string.punctuation)
    word = core.lower()
    english = ENGLISH_FOR.get(word) or strengthened(word, lexicon)
    return token.replace(core, english.upper() if core.isupper() else english, 1) if english else token


def strengthened(word: str, lexicon: dict[str, float]) -> str | None:
    """`Jättebra` as `very bra`, when only the latter is known."""
    for beginning in STRONG_BEGINNINGS:
        rest = word.removeprefix(beginning)
        if rest != word and rest in lexicon and word not in lexicon:
            return f"very {rest}"
    return None


# The engine -----------------------------------------------------------------------------------------------------------


class Engine(Protocol):
    """The part of VADER that we use."""

    lexicon: dict[str, float]

    def polarity_scores(self, text: str) -> dict[str, float]:
        """The scores of a text; `compound` is all of them in one."""
        ...


class Nearby(NamedTuple):
    """The words around one word, as the engine wants a text."""

    words_and_emoticons: list[str]
    is_cap_diff: bool


@cache
def engine_of(language: Language) -> Engine:
    """The engine of a language, which takes its tables into memory the first time; nothing it shares is changed."""
    swedish = language is Language.SWEDISH
    own = swedish_lexicon() if swedish else lexicon_at("vaderSentiment", "vader_lexicon.txt")
    return engine_class()(own | EMOJI)


@cache
def engine_class() -> Any:
    """VADER's engine, without its habit of going through the whole text again at every word that matters."""
    base = import_module("vaderSentiment.vaderSentiment").SentimentIntensityAnalyzer

    class NearsightedEngine(base):
        """Looks three words back and two ahead, which is as far as any of its rules reach."""

        def __init__(self, lexicon: dict[str, float]) -> None:
            self.lexicon = lexicon
            self.emojis: dict[str, str] = {}

        def sentiment_valence(self, valence: float, text: Any, item: str, i: int, sentiments: list[float]) -> Any:
            if item.lower() not in self.lexicon:
                sentiments.append(valence)
                return sentiments
            first = max(0, i - 3)
            nearby = Nearby(text.words_and_emoticons[first : i + 3], text.is_cap_diff)
            return base.sentiment_valence(self, valence, nearby, item, i - first, sentiments)

    return NearsightedEngine


def lexicon_at(package: str, path: str) -> dict[str, float]:
    """The words of a lexicon file and how pleasant each is."""
    lines = files(package).joinpath(path).read_text("utf-8").splitlines()
    entries = (line.strip().split("\t") for line in lines if line.strip())
    return {word: float(value) for word, value, *_ in entries}
