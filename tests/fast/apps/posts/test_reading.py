"""Reading a post by rules: the right sign in two languages, the same answer every time, and an answer to anything."""

from functools import cache
from importlib import import_module
from io import BytesIO
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image, ImageFilter

from duly.apps.posts import caption as caption_rules
from duly.apps.posts import rules
from duly.apps.posts.caption import Language, detect_language
from duly.apps.posts.model import MAX_CAPTION_LENGTH
from duly.apps.posts.reading import (
    MAX_MUSIC_LENGTH,
    MAX_REASONING_LENGTH,
    Analyzer,
    Mood,
    Reading,
    ReadingFailed,
    to_ai_error,
)
from duly.apps.posts.rules import RULES_VERSION, RulesAnalyzer, fallback_reading
from duly.canonical_json import checked_json
from duly.errors import InvalidArgument
from duly.storage.photo import MAX_PHOTO_BYTES

vader: Any = import_module("vaderSentiment.vaderSentiment")

ENGLISH_PLEASANT = [
    "What a lovely morning by the lake",
    "I love these people so much",
    "Not bad at all, I'm actually happy with it",
    "Best coffee in town!",
    "We won the final!!!",
    "So proud of my little sister",
    "Can\u2019t believe how beautiful this place is",
    "Feeling grateful for good friends",
    "This was never so good",
    "Cosy evening with a great book",
    "Could not be happier with our new home",
    "It wasn't bad, it was brilliant",
    "\U0001d4db\U0001d4f8\U0001d4ff\U0001d4ee this place",  # letters that look like handwriting
]
ENGLISH_UNPLEASANT = [
    "This is not good",
    "I miss you so badly, it hurts",
    "The food was terrible and the staff rude",
    "I don\u2019t like Mondays",
    "Not happy with how this ended",
    "Everything went wrong today",
    "Tired, sad and lonely tonight",
    "Never felt so alone and afraid",
    "Worst trip ever",
    "She isn't great today",
    "It was good, but now it is awful",
    "The dog is sick and I am worried",
    "My heart is broken \N{BROKEN HEART}",
]
SWEDISH_PLEASANT = [
    "Vilken underbar morgon vid sjön",
    "Jag älskar det här stället",
    "Bästa kaffet i stan!",
    "Vi vann finalen!!!",
    "Så stolt över min lillasyster",
    "Inte dåligt alls, jag är faktiskt nöjd",
    "Kul kväll med gänget",
    "Jättebra dag på jobbet",
    "Skönt att vara hemma igen",
    "Tacksam för fina vänner",
    "Aldrig mått så bra",
    "Utan tvekan den bästa sommaren",
    "Fantastisk utsikt",
    "Kan inte fatta hur vackert det är",
    "Ma\u030ar toppen med dig",  # a letter in two parts
]
SWEDISH_UNPLEASANT = [
    "Det här är inte bra",
    "INTE BRA",
    "Maten var hemsk och personalen otrevlig",
    "Jag gillar inte måndagar",
    "Jag älskar det inte längre",
    "Jag är inte glad idag",
    "Saknar dig så mycket att det gör ont",
    "Trött, ledsen och ensam ikväll",
    "Sämsta resan någonsin",
    "Det blev aldrig roligt",
    "Ingen rolig dag på jobbet",
    "Orkar inte mer",
    "Det var gott men nu är det äckligt",
    "Sjuk igen, så tråkigt",
]
NASTY = [
    "",
    " \n\t",
    "\0",
    "a\0b",
    "\ud83d alone \udc00",
    "\N{LOUDLY CRYING FACE}" * MAX_CAPTION_LENGTH,
    "x" * 100_000,
    "good " * 100_000,
    "\u202e\u062f\u0645 \u0645\u0643\u0646 \u062c\u0645\u064a\u0644\u202c",
    "\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}" * MAX_CAPTION_LENGTH,
    "a" + "\u0301\u0316" * MAX_CAPTION_LENGTH,
    "inte " * MAX_CAPTION_LENGTH,
    "!" * MAX_CAPTION_LENGTH,
    "%s {0} ' \" \\ \\u0000",
]


def choose_valence(caption: str) -> float:
    return caption_rules.analyze_caption(caption).valence


# Captions -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("caption", ENGLISH_PLEASANT + SWEDISH_PLEASANT)
def test_positive_caption_has_a_positive_valence(caption: str) -> None:
    assert choose_valence(caption) >= rules.FAINT_CAPTION
    assert fallback_reading(caption).mood in {Mood.JOYFUL, Mood.CALM}


@pytest.mark.parametrize("caption", ENGLISH_UNPLEASANT + SWEDISH_UNPLEASANT)
def test_negative_caption_has_a_negative_valence(caption: str) -> None:
    assert choose_valence(caption) <= -rules.FAINT_CAPTION
    assert fallback_reading(caption).mood in {Mood.MELANCHOLIC, Mood.TENSE}


@pytest.mark.parametrize("caption", ENGLISH_PLEASANT + ENGLISH_UNPLEASANT)
def test_english_is_distinguished_from_swedish(caption: str) -> None:
    assert caption_rules.analyze_caption(caption).language is Language.ENGLISH


@pytest.mark.parametrize("caption", SWEDISH_PLEASANT + SWEDISH_UNPLEASANT)
def test_swedish_is_distinguished_from_english(caption: str) -> None:
    assert caption_rules.analyze_caption(caption).language is Language.SWEDISH


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The dog and I", Language.ENGLISH),
        ("Hunden och jag", Language.SWEDISH),
        ("smörgås", Language.SWEDISH),
        ("Berlin", None),
        ("", None),
        ("\N{GRINNING FACE}", None),
        ("love och lycka", None),  # one of each
    ],
)
def test_language_is_detected_by_function_words(text: str, language: Language | None) -> None:
    assert detect_language(text) is language


def test_caption_in_an_unknown_language_is_read_in_the_more_expressive_one() -> None:
    assert caption_rules.analyze_caption("Fantastisk utsikt").language is Language.SWEDISH
    assert caption_rules.analyze_caption("Wonderful sunset").language is Language.ENGLISH
    assert caption_rules.analyze_caption("Berlin").language is None


@pytest.mark.parametrize(
    ("caption", "mood"),
    [
        ("We won the final!!!", Mood.JOYFUL),
        ("A nice walk", Mood.CALM),
        ("Missing you", Mood.MELANCHOLIC),
        ("I hate this!!!", Mood.TENSE),
        ("Meeting at five", Mood.NEUTRAL),
        ("Möte klockan fem", Mood.NEUTRAL),
        ("", Mood.NEUTRAL),
    ],
)
def test_fallback_derives_the_mood_from_the_caption(caption: str, mood: Mood) -> None:
    assert fallback_reading(caption).mood == mood


@pytest.mark.parametrize("text", ["Stockholm {}", "On the train{}", "På tåget {}{}"])
def test_an_emoji_means_the_same_in_every_language(text: str) -> None:
    assert choose_valence(text.replace("{}", "\N{HEAVY BLACK HEART}\N{VARIATION SELECTOR-16}")) > 0
    assert choose_valence(text.replace("{}", "\N{LOUDLY CRYING FACE}\N{EMOJI MODIFIER FITZPATRICK TYPE-3}")) < 0


def test_a_swedish_negator_works_on_both_sides_of_its_verb() -> None:
    assert choose_valence("Jag gillar det") > 0
    assert choose_valence("Jag gillar det inte") < 0
    assert choose_valence("Jag gillar inte det") < 0
    assert choose_valence("Hon sa att hon inte gillar det") < 0


HOSTILE_WORDS = [
    *vader.NEGATE,
    *vader.BOOSTER_DICT,
    *vader.SPECIAL_CASES,
    *("no", "or", "nor", "least", "at", "kind", "of", "so", "this", "doubt", "but", "table", "the", "xyz", "beating"),
    *("good", "GOOD", "bad", "love", "hate", "shit", "bomb", ":)", ":(", "best!", "sad,", "BUT", "VERY", "NOT"),
]


@cache
def original() -> Any:
    return vader.SentimentIntensityAnalyzer()


@pytest.mark.filterwarnings("ignore:codecs.open:DeprecationWarning")
@given(st.lists(st.sampled_from(HOSTILE_WORDS), max_size=12).map(" ".join))
def test_optimized_vader_scores_equal_the_original(text: str) -> None:
    assert caption_rules.load_engine(Language.ENGLISH).polarity_scores(text) == original().polarity_scores(text)


def test_fallback_does_not_modify_the_vader_tables() -> None:
    fallback_reading("Det här är inte bra")
    assert "inte" not in vader.NEGATE
    assert "mycket" not in vader.BOOSTER_DICT
    assert choose_valence("The inte good") > 0


# Anything -------------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=()), max_size=80) | st.text(
    st.sampled_from(" \0\ud800\udfff!?'aåé\u0301\u200d\ufe0f\u202e\N{GRINNING FACE}ﷺ\n\tinteGOOD"), max_size=300
)


def assert_storable(reading: Reading) -> None:
    document = reading.document()
    assert checked_json(document) == document
    assert document["mood"] in set(Mood)
    assert set(document) == {"mood", "music", "reasoning", "provider", "version"}
    assert 0 < len(document["music"]) <= MAX_MUSIC_LENGTH
    assert 0 < len(document["reasoning"]) <= MAX_REASONING_LENGTH
    assert (document["provider"], document["version"]) == ("rules", RULES_VERSION)


@given(TEXTS)
def test_every_caption_yields_a_storable_reading(caption: str) -> None:
    reading = fallback_reading(caption)
    assert "could not be read" not in reading.reasoning
    assert -1 <= choose_valence(caption) <= 1
    assert_storable(reading)


@pytest.mark.parametrize("caption", NASTY, ids=ascii)
def test_hostile_captions_yield_storable_readings(caption: str) -> None:
    reading = fallback_reading(caption)
    assert "could not be read" not in reading.reasoning
    assert_storable(reading)


@given(TEXTS, TEXTS, TEXTS, TEXTS)
@example("\0" * 5000, "\ud800" * 5000, "x" * 5000, "\n" * 5000)
def test_every_reading_can_be_stored(music: str, reasoning: str, provider: str, version: str) -> None:
    document = Reading("calm", music, reasoning, provider, version).document()
    assert checked_json(document) == document
    assert len(document["music"]) <= MAX_MUSIC_LENGTH
    assert len(document["reasoning"]) <= MAX_REASONING_LENGTH
    assert all(len(text.splitlines()) <= 1 for text in document.values())


@pytest.mark.parametrize("mood", ["", "Joyful", "sad", "\0"])
def test_unknown_mood_is_refused(mood: str) -> None:
    with pytest.raises(InvalidArgument, match="joyful, calm, melancholic, tense, neutral"):
        Reading(mood, "", "", "model", "1")


def test_captions_of_one_mood_do_not_all_get_the_same_music() -> None:
    assert len({fallback_reading(f"Meeting at {hour}").music for hour in range(24)}) == len(rules.MUSIC[Mood.NEUTRAL])


def test_fallback_returns_a_reading_even_if_the_rules_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(caption_rules, "load_engine", fail)
    reading = fallback_reading("Best day")
    assert reading.mood == Mood.NEUTRAL
    assert "could not be read" in reading.reasoning
    assert_storable(reading)


# Photos ---------------------------------------------------------------------------------------------------------------

Colour = tuple[int, int, int]


def photo_of(image: Image.Image, image_format: str = "JPEG") -> bytes:
    file = BytesIO()
    image.save(file, image_format, quality=90)
    return file.getvalue()


def gradient(top: Colour, bottom: Colour, width: int = 320, height: int = 240) -> bytes:
    image = Image.new("RGB", (1, 2))
    image.putpixel((0, 0), top)
    image.putpixel((0, 1), bottom)
    return photo_of(image.resize((width, height), Image.Resampling.BILINEAR))


def neon(light: Colour) -> bytes:
    image = Image.new("RGB", (320, 240), (5, 5, 20))
    for left in range(0, 320, 40):
        image.paste(light, (left, 20, left + 20, 220))
    return photo_of(image.filter(ImageFilter.GaussianBlur(2)))


SUNSET = gradient((255, 190, 90), (150, 40, 50))
NIGHT = gradient((4, 6, 22), (26, 32, 60))
FOG = gradient((205, 208, 212), (170, 173, 176))
NEON = neon((90, 80, 255))
GREY = gradient((118, 118, 118), (118, 118, 118))


@pytest.mark.parametrize(
    ("photo", "mood"),
    [
        (SUNSET, Mood.JOYFUL),
        (NIGHT, Mood.MELANCHOLIC),
        (FOG, Mood.CALM),
        (NEON, Mood.TENSE),
        (GREY, Mood.CALM),
    ],
    ids=["sunset", "night", "fog", "neon", "grey"],
)
async def test_photo_without_a_caption_gets_its_mood_from_its_tones(photo: bytes, mood: Mood) -> None:
    reading = await RulesAnalyzer().read("", photo)
    assert reading.mood == mood
    assert_storable(reading)


async def test_expressive_caption_outweighs_the_photo() -> None:
    assert (await RulesAnalyzer().read("Best night ever", NIGHT)).mood == Mood.CALM
    assert (await RulesAnalyzer().read("I miss her terribly", SUNSET)).mood == Mood.TENSE
    assert (await RulesAnalyzer().read("Tuesday", NIGHT)).mood == Mood.MELANCHOLIC


async def test_reasoning_lists_the_features_and_their_values() -> None:
    reasoning = (await RulesAnalyzer().read("Så vackert!", SUNSET)).reasoning
    light = rules.read_photo(SUNSET)
    assert "Swedish" in reasoning
    assert "1 exclamation mark." in reasoning
    for name, number in [
        ("brightness", f"{light.brightness:.2f}"),
        ("contrast", f"{light.contrast:.2f}"),
        ("saturation", f"{light.saturation:.2f}"),
        ("warmth", f"{light.warmth:+.2f}"),
        ("score", f"{choose_valence('Så vackert!'):+.2f}"),
    ]:
        assert f"{name} {number}" in reasoning


@pytest.mark.parametrize(
    ("colour", "light"),
    [
        ((0, 0, 0), rules.PhotoTones(0.0, 0.0, 0.0, 0.0)),
        ((255, 255, 255), rules.PhotoTones(1.0, 0.0, 0.0, 0.0)),
        ((255, 0, 0), rules.PhotoTones(0.3, 0.0, 1.0, 1.0)),
        ((0, 0, 255), rules.PhotoTones(0.11, 0.0, 1.0, -1.0)),
    ],
)
def test_tones_of_a_single_color_are_exact(colour: Colour, light: rules.PhotoTones) -> None:
    assert rules.read_photo(photo_of(Image.new("RGB", (64, 64), colour), "PNG")) == light


@pytest.mark.parametrize(
    "photo",
    [b"", b"no photo", SUNSET[: len(SUNSET) // 3], SUNSET + bytes(MAX_PHOTO_BYTES)],
    ids=["empty", "words", "cut off", "too large"],
)
async def test_unreadable_photo_still_yields_a_reading_of_the_caption(photo: bytes) -> None:
    with pytest.raises(ReadingFailed) as caught:
        await RulesAnalyzer().read("We won the final!!!", photo)
    assert caught.value.code == "IMAGE_UNREADABLE"
    assert caught.value.message
    assert caught.value.reading is not None
    assert caught.value.reading.mood == Mood.JOYFUL
    assert "photo could not be read" in caught.value.reading.reasoning
    assert_storable(caught.value.reading)


async def test_a_post_without_a_photo_is_read_by_its_caption() -> None:
    analyzer: Analyzer = RulesAnalyzer()
    reading = await analyzer.read("We won the final!!!", None)
    assert (analyzer.name, reading.mood) == ("rules", Mood.JOYFUL)
    assert "There is no photo." in reading.reasoning


# Failures -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ReadingFailed("AI_UPSTREAM", "500"), "AI_UPSTREAM"),
        (TimeoutError(), "AI_TIMEOUT"),
        ("TIMEOUT", "AI_TIMEOUT"),
        ("UNKNOWN_ERROR", "AI_FAILED"),
        ("", "AI_FAILED"),
        (ValueError("x"), "AI_FAILED"),
        (KeyboardInterrupt(), "AI_FAILED"),
    ],
    ids=repr,
)
def test_each_failure_maps_to_an_error_code(error: BaseException | str, code: str) -> None:
    assert to_ai_error(error) == code


def test_message_of_a_failed_reading_can_be_stored() -> None:
    error = ReadingFailed("AI_BAD_OUTPUT", "\0\ud800" + "x" * 10_000)
    assert error.message == str(error)
    assert checked_json(error.message, object_only=False) == error.message
    assert len(error.message) <= 2048
    assert error.reading is None


@pytest.mark.parametrize("code", ["", "ai_timeout", "AI TIMEOUT", "AI_TIMEOUT\n", "A" * 65])
def test_invalid_error_code_is_an_assertion_error(code: str) -> None:
    with pytest.raises(AssertionError):
        ReadingFailed(code, "why")
