"""Reading a post by rules that anybody can follow: no model, no network, the same answer every time.

                  quiet         lively
    pleasant      calm          joyful
    unpleasant    melancholic   tense         and neutral where nothing says which

Pleasant or not (valence) is what the caption says, by VADER; when that says nothing, what the photo's light says. Quiet
or lively (arousal) is the photo's saturation and contrast and the caption's emphasis. The numbers in the reasoning are
the numbers that decided, rounded before they were used. Nothing here can tell what a photo shows.

VADER reads English. A Swedish caption is scored by the same engine with a Swedish lexicon, after its few small words
that strengthen, weaken or turn around were put in English, for those the engine knows by heart.
"""

import asyncio
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

from duly.errors import Refused
from duly.posts.model import LONGEST_CAPTION
from duly.posts.reading import Mood, NoReading, Reading

__all__ = ["RULES_VERSION", "Language", "RulesAnalyzer", "fallback_reading", "language_of"]

PROVIDER = "rules"
RULES_VERSION = "1"  # raise it with any change that lets a post read differently

FAINT_CAPTION = 0.05  # VADER's own band, within which a text says nothing
FAINT_PHOTO = 0.10
QUIET, LIVELY = 0.30, 0.60
ORDINARY_PHOTO = 0.50  # the saturation and contrast of a photo that is not there
EMPHASIS = 0.15  # of an exclamation mark, at most three, and of delight
DELIGHT = 0.60

MUSIC = {
    Mood.JOYFUL: (
        "indie pop, about 120 bpm, major",
        "funk, about 110 bpm, major",
        "disco, about 118 bpm, major",
        "upbeat folk, about 126 bpm, major",
    ),
    Mood.CALM: (
        "indie folk, about 90 bpm, major",
        "bossa nova, about 76 bpm, major",
        "ambient, about 60 bpm, major",
        "acoustic guitar, about 80 bpm, major",
    ),
    Mood.MELANCHOLIC: (
        "solo piano, about 66 bpm, minor",
        "slow blues, about 62 bpm, minor",
        "string quartet, about 58 bpm, minor",
        "singer-songwriter, about 72 bpm, minor",
    ),
    Mood.TENSE: (
        "dark synthwave, about 128 bpm, minor",
        "post-rock, about 140 bpm, minor",
        "drum and bass, about 172 bpm, minor",
        "orchestral score, about 132 bpm, minor",
    ),
    Mood.NEUTRAL: (
        "lo-fi hip hop, about 84 bpm, dorian",
        "downtempo, about 92 bpm, mixolydian",
        "cool jazz, about 100 bpm, dorian",
    ),
}


class RulesAnalyzer:
    """Reads a post by rules; the photo in a thread, for opening one takes some milliseconds."""

    name: str = PROVIDER

    async def read(self, caption: str, photo: bytes | None) -> Reading:
        """The reading of caption and photo; of the caption alone, inside NoReading, when the photo cannot be opened."""
        words = read_caption(caption)
        if photo is None:
            return reading_of(words, None, "There is no photo.")
        try:
            light = await asyncio.to_thread(read_photo, photo)
        except Refused as error:  # no photo, or more of one than we read
            alone = reading_of(words, None, "The photo could not be read.")
            raise NoReading("IMAGE_UNREADABLE", str(error), alone) from error
        return reading_of(words, light, light.describe())


def fallback_reading(caption: str) -> Reading:
    """A reading of the caption alone, whatever happens."""
    try:
        return reading_of(read_caption(caption), None, "The photo was not looked at.")
    except Exception:
        why = "The caption could not be read and the photo was not looked at."
        return Reading(Mood.NEUTRAL, MUSIC[Mood.NEUTRAL][0], why, PROVIDER, RULES_VERSION)


# What caption and photo make together ---------------------------------------------------------------------------------


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


@dataclass(frozen=True, slots=True)
class Light:
    """What can be told of a photo without knowing what it shows; each from 0 to 1, warmth from -1."""

    brightness: float
    contrast: float
    saturation: float
    warmth: float

    @property
    def valence(self) -> float:
        """Light and warm colours are pleasant, dark and cold ones are not."""
        return tidy(max(-1.0, min(1.0, self.brightness - 0.45 + 0.8 * self.warmth)))

    def describe(self) -> str:
        """What was seen, in a sentence."""
        return (
            f"The photo has brightness {self.brightness:.2f}, contrast {self.contrast:.2f}, "
            f"saturation {self.saturation:.2f} (each 0 to 1) and warmth {self.warmth:+.2f} (red minus blue); "
            f"its light scores {self.valence:+.2f} (-1 to 1)."
        )


def reading_of(words: Words, light: Light | None, of_the_photo: str) -> Reading:
    """The mood of caption and photo, music for it, and how it was found."""
    source, valence = valence_of(words, light)
    activity = light.saturation + light.contrast if light else ORDINARY_PHOTO
    arousal = tidy(activity + words.emphasis)
    mood = mood_of(valence, arousal)
    parts = "saturation + contrast" if light else f"{ORDINARY_PHOTO:.2f} for want of a photo"
    verdict = (
        f"Valence {valence:+.2f} ({source}) and arousal {arousal:.2f} ({parts} + emphasis {words.emphasis:.2f}; "
        f"lively from {LIVELY:.2f}) make it {mood}."
    )
    music = MUSIC[mood][int.from_bytes(words.digest[:4]) % len(MUSIC[mood])]
    return Reading(mood, music, f"{words.describe()} {of_the_photo} {verdict}", PROVIDER, RULES_VERSION)


def valence_of(words: Words, light: Light | None) -> tuple[str, float]:
    """How pleasant the post is, and who says so: the caption, or else the photo, or nobody."""
    if abs(words.valence) >= FAINT_CAPTION:
        return "the caption's", words.valence
    if light and abs(light.valence) >= FAINT_PHOTO:
        return "the photo's, for the caption says nothing", light.valence
    return "nothing says which", 0.0


def mood_of(valence: float, arousal: float) -> Mood:
    """The quadrant; without a valence only stillness means something."""
    if not valence:
        return Mood.CALM if arousal < QUIET else Mood.NEUTRAL
    if valence > 0:
        return Mood.JOYFUL if arousal >= LIVELY else Mood.CALM
    return Mood.TENSE if arousal >= LIVELY else Mood.MELANCHOLIC


def tidy(number: float) -> float:
    """Two decimals, and no minus before a zero."""
    return round(number, 2) + 0.0


# The photo ------------------------------------------------------------------------------------------------------------


def read_photo(photo: bytes) -> Light:
    """The light of a photo; refused when it cannot be opened."""
    from PIL import ImageChops, ImageStat

    from duly.objects.photo import small_photo

    image = small_photo(photo).convert("RGB")
    red, green, blue = image.split()
    most = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    least = ImageChops.darker(ImageChops.darker(red, green), blue)
    grey = ImageStat.Stat(image.convert("L"))
    means = ImageStat.Stat(image).mean
    return Light(
        brightness=tidy(grey.mean[0] / 255),
        contrast=tidy(grey.stddev[0] / 127.5),
        saturation=tidy(ImageStat.Stat(ImageChops.subtract(most, least)).mean[0] / 255),
        warmth=tidy((means[0] - means[2]) / 255),
    )


# The caption ----------------------------------------------------------------------------------------------------------

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
    caption = caption[:LONGEST_CAPTION]
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
    return unicodedata.normalize("NFKC", caption.translate(SIGNS))[:LONGEST_CAPTION]


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
    found = lexicon_at("duly.posts", "lexicon/sv.txt")
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
