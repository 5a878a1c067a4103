"""Reading a post by rules that anybody can follow: no model, no network, the same answer every time.

                  quiet         lively
    pleasant      calm          joyful
    unpleasant    melancholic   tense         and neutral where nothing says which

Pleasant or not (valence) is what the caption says, by VADER; when that says nothing, what the photo's light says. Quiet
or lively (arousal) is the photo's saturation and contrast and the caption's emphasis. The numbers in the reasoning are
the numbers that decided, rounded before they were used. Nothing here can tell what a photo shows.
"""

import asyncio
from dataclasses import dataclass

from duly.apps.posts.caption import Words, read_caption, tidy
from duly.apps.posts.reading import Mood, NoReading, Reading
from duly.errors import Refused

__all__ = ["RULES_VERSION", "RulesAnalyzer", "fallback_reading"]

PROVIDER = "rules"
RULES_VERSION = "1"  # raise it with any change that lets a post read differently

FAINT_CAPTION = 0.05  # VADER's own band, within which a text says nothing
FAINT_PHOTO = 0.10
QUIET, LIVELY = 0.30, 0.60
ORDINARY_PHOTO = 0.50  # the saturation and contrast of a photo that is not there

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


# The photo ------------------------------------------------------------------------------------------------------------


def read_photo(photo: bytes) -> Light:
    """The light of a photo; refused when it cannot be opened."""
    from PIL import ImageChops, ImageStat

    from duly.storage.photo import small_photo

    image = small_photo(photo).convert("RGB")
    red, green, blue = image.split()
    limit = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    least = ImageChops.darker(ImageChops.darker(red, green), blue)
    grey = ImageStat.Stat(image.convert("L"))
    means = ImageStat.Stat(image).mean
    return Light(
        brightness=tidy(grey.mean[0] / 255),
        contrast=tidy(grey.stddev[0] / 127.5),
        saturation=tidy(ImageStat.Stat(ImageChops.subtract(limit, least)).mean[0] / 255),
        warmth=tidy((means[0] - means[2]) / 255),
    )
