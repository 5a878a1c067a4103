"""The texts for authors of posts."""

from duly.apps.posts.messages import TEXTS

LANGUAGES = {"en", "sv", "zh"}


def test_every_text_exists_in_every_language() -> None:
    incomplete = {key: sorted(LANGUAGES ^ set(texts)) for key, texts in TEXTS.items() if set(texts) != LANGUAGES}
    assert incomplete == {}
    assert [key for key, texts in TEXTS.items() if not all(text.strip() for text in texts.values())] == []
