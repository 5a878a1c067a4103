"""Sentiment analysis of captions: language, valence and emphasis.

VADER supports English. A Swedish caption is scored by the same engine with a Swedish lexicon, after its intensifiers
and negations were translated to English, because those are built into the engine.
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

EMPHASIS_STEP = 0.15  # per exclamation mark, at most three, and for delight
DELIGHT_VALENCE = 0.60


class Language(StrEnum):
    """The supported languages."""

    ENGLISH = "English"
    SWEDISH = "Swedish"


@dataclass(frozen=True, slots=True)
class CaptionAnalysis:
    """The result of analyzing a caption; the valence is from -1 to 1."""

    language: Language | None
    valence: float
    exclamations: int
    digest: bytes
    is_empty: bool

    @property
    def emphasis(self) -> float:
        """What the caption adds to arousal: exclamation marks and delight do, grief does not."""
        return EMPHASIS_STEP * (min(self.exclamations, 3) + (self.valence >= DELIGHT_VALENCE))

    def describe(self) -> str:
        """Describe the analysis in a sentence."""
        if self.is_empty:
            return "There is no caption."
        language = f"reads as {self.language}" if self.language else "has no language that these rules recognize"
        marks = f"{self.exclamations} exclamation mark{'' if self.exclamations == 1 else 's'}"
        return f"The caption {language}; its words score {self.valence:+.2f} (-1 to 1), with {marks}."


def round_score(number: float) -> float:
    """Round to two decimals, without a negative zero."""
    return round(number, 2) + 0.0


# The language ---------------------------------------------------------------------------------------------------------

WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
NO_NEGATION = re.compile(
    r"\b(?:(?:can'?t|cannot|couldn'?t|could not) (?:wait|believe|stop|be)"
    r"|(?:kan|kunde) inte (?:vänta|tro|fatta|förstå|sluta|vara|bli))\b",
    re.IGNORECASE,
)  # expressions of enthusiasm, not negations
SWEDISH_LETTER = re.compile("[åäö]")
SWEDISH_FUNCTION_WORDS = """
    och att det inte jag som med av till den har vi min mitt mina om du en ett kan ska var vad hos eller bara mycket sig
    sin sitt hur han hon oss mig dig ni blir blev vara varit efter igen alla allt ingen inget inga aldrig utan hem hemma
    nu sen sedan vill ville fick kommer kom tar tog lite helt mot hela ut upp ner lika detta denna dessa dag dagen idag
    imorgon morgon natt vecka sommar vinter jobbet barnen kul bra fin fint
"""
ENGLISH_FUNCTION_WORDS = """
    the and is it its it's to of a an my you your this that these those was were with for not but be been being have has
    had we our they their he she his her him i'm im i've i'll can't cant don't dont didn't isn't wasn't won't never what
    when where who why how which so too on at from by as or if just me us do does did will would could should there here
    are am no very really into out up about after again all any some more most than then now today tonight tomorrow day
    days night morning week time good best ever love happy
"""
SWEDISH_WORDS = frozenset(SWEDISH_FUNCTION_WORDS.split())
ENGLISH_WORDS = frozenset(ENGLISH_FUNCTION_WORDS.split())


def detect_language(text: str) -> Language | None:
    """Detect the language by function words and by å, ä and ö; return None for a tie."""
    words = WORD.findall(text.lower())
    swedish = sum(word in SWEDISH_WORDS or bool(SWEDISH_LETTER.search(word)) for word in words)
    english = sum(word in ENGLISH_WORDS for word in words)
    if swedish == english:
        return None
    return Language.SWEDISH if swedish > english else Language.ENGLISH


def analyze_caption(caption: str) -> CaptionAnalysis:
    """Analyze a caption; if its language is unclear, use the one with the stronger score."""
    caption = caption[:MAX_CAPTION_LENGTH]
    text = normalize_caption(caption)
    language = detect_language(text)
    if language:
        valence = score_text(text, language)
    else:
        language, valence = stronger_language(text)
    digest = hashlib.sha256(caption.encode("utf-8", "surrogatepass")).digest()
    return CaptionAnalysis(language, valence, text.count("!"), digest, not text.strip())


def stronger_language(text: str) -> tuple[Language | None, float]:
    """Return the language with the stronger score, and that score; no language when all scores are equal."""
    scores = {language: score_text(text, language) for language in Language}
    language = max(scores, key=lambda each: abs(scores[each]))
    return (language if len(set(scores.values())) > 1 else None), scores[language]


def score_text(text: str, language: Language) -> float:
    """Score the valence of a text in a language, from -1 to 1."""
    engine = load_engine(language)
    content = NO_NEGATION.sub(" ", text)
    if language is Language.SWEDISH:
        content = in_english_order(content, engine.lexicon)
    return round_score(engine.polarity_scores(content)["compound"])


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


def normalize_caption(caption: str) -> str:
    """Normalize a caption to the characters of the lexicons, with every emoji as a separate word."""
    return unicodedata.normalize("NFKC", caption.translate(SIGNS))[:MAX_CAPTION_LENGTH]


# Swedish --------------------------------------------------------------------------------------------------------------

FUNCTION_WORDS = {
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
ENGLISH_FOR = {swedish: english for english, words in FUNCTION_WORDS.items() for swedish in words.split()}
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
MISTRANSLATED = frozenset({"stor", "ny", "tycker"})  # scored as if they were great, novel and doubts


def swedish_lexicon() -> dict[str, float]:
    """Load the Swedish lexicon, with missing everyday words added and mistranslated ones removed."""
    lexicon = load_lexicon("duly.apps.posts", "lexicon/sv.txt")
    lexicon |= {word: value for value, words in MISSING.items() for word in words.split()}
    return {word: value for word, value in lexicon.items() if word not in MISTRANSLATED}


def in_english_order(text: str, lexicon: dict[str, float]) -> str:
    """Translate the function words of a Swedish text, and move negations to where the engine expects them."""
    tokens = text.split()
    for position, token in enumerate(tokens):
        if token.strip(string.punctuation).lower() in AFTER_THE_VERB:
            tokens.insert(verb_before(tokens, position, lexicon), tokens.pop(position))
    return " ".join(in_english(token, lexicon) for token in tokens)


def verb_before(tokens: list[str], position: int, lexicon: dict[str, float]) -> int:
    """Return the position of the verb that the negation at `position` negates ("gillar det inte"), or `position`."""
    verb = position - 1
    if verb > 0 and tokens[verb].lower() in BETWEEN:
        verb -= 1
    found = tokens[verb].lower() if verb >= 0 else ""
    return verb if found in lexicon and found.endswith(VERB_ENDINGS) else position


def in_english(token: str, lexicon: dict[str, float]) -> str:
    """Translate a function word, split an intensified word in two, and return any other unchanged."""
    core = token.strip(string.punctuation)
    word = core.lower()
    english = ENGLISH_FOR.get(word) or strengthened(word, lexicon)
    return token.replace(core, english.upper() if core.isupper() else english, 1) if english else token


def strengthened(word: str, lexicon: dict[str, float]) -> str | None:
    """Return `very bra` for `jättebra`, if only `bra` is in the lexicon."""
    for beginning in STRONG_BEGINNINGS:
        rest = word.removeprefix(beginning)
        if rest != word and rest in lexicon and word not in lexicon:
            return f"very {rest}"
    return None


# The engine -----------------------------------------------------------------------------------------------------------


class SentimentEngine(Protocol):
    """The used part of VADER's analyzer."""

    lexicon: dict[str, float]

    def polarity_scores(self, text: str) -> dict[str, float]:
        """Return the scores of a text; `compound` combines them."""
        ...


class Nearby(NamedTuple):
    """The words around one word, in the shape of the engine's text class."""

    words_and_emoticons: list[str]
    is_cap_diff: bool


@cache
def load_engine(language: Language) -> SentimentEngine:
    """Return the cached engine of a language; it shares no mutable state with VADER."""
    swedish = language is Language.SWEDISH
    lexicon = swedish_lexicon() if swedish else load_lexicon("vaderSentiment", "vader_lexicon.txt")
    return engine_class()(lexicon | EMOJI)


@cache
def engine_class() -> Any:
    """Return VADER's analyzer without its quadratic run time: it scans the full text at every scored word."""
    base = import_module("vaderSentiment.vaderSentiment").SentimentIntensityAnalyzer

    class WindowedEngine(base):
        """Passes three words before and two after a word, which is the range of all rules."""

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

    return WindowedEngine


def load_lexicon(package: str, path: str) -> dict[str, float]:
    """Load a lexicon file as words and valences."""
    lines = files(package).joinpath(path).read_text("utf-8").splitlines()
    entries = (line.strip().split("\t") for line in lines if line.strip())
    return {word: float(value) for word, value, *_ in entries}
