"""Deterministic reading of a post by rules: no model, no network, the same result every time.

                  quiet         lively
    pleasant      calm          joyful
    unpleasant    melancholic   tense         and neutral without a signal

Valence (pleasant or not) is VADER's score of the caption; if that is about zero, it comes from the brightness and
warmth of the photo. Arousal (quiet or lively) is the photo's saturation and contrast plus the caption's emphasis. The
numbers in the reasoning are those that decided, rounded before they were used. The content of a photo is not
recognized.
"""

import asyncio
from dataclasses import dataclass

from duly.apps.posts.caption import CaptionAnalysis, analyze_caption, round_score
from duly.apps.posts.reading import Mood, Reading, ReadingFailed
from duly.errors import Refused

PROVIDER = "rules"
RULES_VERSION = "1"  # increase it with every change of the results

FAINT_CAPTION = 0.05  # VADER's own limit, below which a text is neutral
FAINT_PHOTO = 0.10
QUIET, LIVELY = 0.30, 0.60
ORDINARY_PHOTO = 0.50  # assumed saturation plus contrast without a photo

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
    """Reads a post by rules; the photo in a thread, because decoding takes some milliseconds."""

    name: str = PROVIDER

    async def read(self, caption: str, photo: bytes | None) -> Reading:
        """Read caption and photo; raises ReadingFailed, with a reading of the caption, if the photo is unreadable."""
        analysis = analyze_caption(caption)
        if photo is None:
            return build_reading(analysis, None, "There is no photo.")
        try:
            tones = await asyncio.to_thread(read_photo, photo)
        except Refused as error:  # not an image, or larger than the limit
            caption_only = build_reading(analysis, None, "The photo could not be read.")
            raise ReadingFailed("IMAGE_UNREADABLE", str(error), caption_only) from error
        return build_reading(analysis, tones, tones.describe())


def fallback_reading(caption: str) -> Reading:
    """Read the caption only; never raises."""
    try:
        return build_reading(analyze_caption(caption), None, "The photo was not read.")
    except Exception:
        reasoning = "The caption could not be read, and the photo was not read."
        return Reading(Mood.NEUTRAL, MUSIC[Mood.NEUTRAL][0], reasoning, PROVIDER, RULES_VERSION)


# Combining caption and photo ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PhotoTones:
    """The tones of a photo, each from 0 to 1, warmth from -1 to 1."""

    brightness: float
    contrast: float
    saturation: float
    warmth: float

    @property
    def valence(self) -> float:
        """How pleasant the tones are: bright and warm ones are, dark and cold ones are not."""
        return round_score(max(-1.0, min(1.0, self.brightness - 0.45 + 0.8 * self.warmth)))

    def describe(self) -> str:
        """Describe the tones in a sentence."""
        return (
            f"The photo has brightness {self.brightness:.2f}, contrast {self.contrast:.2f}, "
            f"saturation {self.saturation:.2f} (each 0 to 1) and warmth {self.warmth:+.2f} (red minus blue); "
            f"its light scores {self.valence:+.2f} (-1 to 1)."
        )


def build_reading(analysis: CaptionAnalysis, tones: PhotoTones | None, photo_text: str) -> Reading:
    """Combine caption and photo to a mood, music for it, and the reasoning."""
    source, valence = choose_valence(analysis, tones)
    activity = tones.saturation + tones.contrast if tones else ORDINARY_PHOTO
    arousal = round_score(activity + analysis.emphasis)
    mood = choose_mood(valence, arousal)
    parts = "saturation + contrast" if tones else f"{ORDINARY_PHOTO:.2f} without a photo"
    verdict = (
        f"Valence {valence:+.2f} ({source}) and arousal {arousal:.2f} ({parts} + emphasis {analysis.emphasis:.2f}; "
        f"lively from {LIVELY:.2f}) make it {mood}."
    )
    music = MUSIC[mood][int.from_bytes(analysis.digest[:4]) % len(MUSIC[mood])]
    return Reading(mood, music, f"{analysis.describe()} {photo_text} {verdict}", PROVIDER, RULES_VERSION)


def choose_valence(analysis: CaptionAnalysis, tones: PhotoTones | None) -> tuple[str, float]:
    """Return the source and value of the valence: the caption, else the photo, else zero."""
    if abs(analysis.valence) >= FAINT_CAPTION:
        return "the caption's", analysis.valence
    if tones and abs(tones.valence) >= FAINT_PHOTO:
        return "the photo's, because the caption is neutral", tones.valence
    return "no signal", 0.0


def choose_mood(valence: float, arousal: float) -> Mood:
    """Return the quadrant of valence and arousal; with zero valence calm or neutral."""
    if not valence:
        return Mood.CALM if arousal < QUIET else Mood.NEUTRAL
    if valence > 0:
        return Mood.JOYFUL if arousal >= LIVELY else Mood.CALM
    return Mood.TENSE if arousal >= LIVELY else Mood.MELANCHOLIC


# The photo ------------------------------------------------------------------------------------------------------------


def read_photo(photo: bytes) -> PhotoTones:
    """Measure the tones of a photo; raises Refused when it cannot be decoded."""
    from PIL import ImageChops, ImageStat

    from duly.storage.photo import decode_thumbnail

    image = decode_thumbnail(photo).convert("RGB")
    red, green, blue = image.split()
    brightest = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    darkest = ImageChops.darker(ImageChops.darker(red, green), blue)
    grey = ImageStat.Stat(image.convert("L"))
    means = ImageStat.Stat(image).mean
    return PhotoTones(
        brightness=round_score(grey.mean[0] / 255),
        contrast=round_score(grey.stddev[0] / 127.5),
        saturation=round_score(ImageStat.Stat(ImageChops.subtract(brightest, darkest)).mean[0] / 255),
        warmth=round_score((means[0] - means[2]) / 255),
    )
