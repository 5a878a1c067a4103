"""The texts that authors of posts receive, in every supported language."""

from collections.abc import Mapping

TEXTS: Mapping[str, Mapping[str, str]] = {
    "released": {
        "en": "Your post is out: everyone can see it now.",
        "sv": "Ditt inlägg är ute: alla kan se det nu.",
        "zh": "您的帖子已发布，大家现在都能看到。",  # noqa: RUF001 (a Chinese comma)
    },
}


def texts_by_language(key: str) -> Mapping[str, str]:
    """Return the text of a message in each language, by language code."""
    return TEXTS[key]
