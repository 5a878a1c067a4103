"""The captions of a run's posts, and a stored analysis of one."""

import asyncio

import orjson

from duly.apps.posts.rules import RulesAnalyzer

CAPTIONS = [
    "Best day ever at the beach with the whole family! ☀️❤️",
    "Solen skiner och kaffet är gott, vad mer kan man begära?",
    "Missed the last train home, again. This week cannot end soon enough.",
    "Monday.",
    "Äntligen fredag! Jättebra vecka men nu är jag trött 😴",
    "We walked along the river until it got dark and the lights came on, and we did not talk much.",
    "Can't believe we won!!! 🏆🎉",
    "Saknar dig. Det är tomt här hemma utan dina skor i hallen.",
    "New recipe: lentils, lemon, too much garlic. Not bad at all.",
    "",
]


def sample_reading() -> str:
    """Return an analysis as it is stored."""
    reading = asyncio.run(RulesAnalyzer().read(CAPTIONS[0], None))
    return orjson.dumps(reading.document()).decode()
