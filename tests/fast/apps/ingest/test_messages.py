"""The catalogue of texts: complete in every language."""

from string import Formatter

from duly.apps.ingest.messages import LANGUAGES, MESSAGES


def placeholders(text: str) -> set[str]:
    """Return the names of the placeholders in a text."""
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_messages_exist_in_english_swedish_and_chinese() -> None:
    assert LANGUAGES == ("en", "sv", "zh")


def test_every_language_has_every_key_with_the_same_placeholders() -> None:
    english = {key: placeholders(text) for key, text in MESSAGES["en"].items()}
    for language, texts in MESSAGES.items():
        assert {key: placeholders(text) for key, text in texts.items()} == english, language


def test_message_keys_are_stable_names() -> None:
    assert [key for key in MESSAGES["en"] if not key.isidentifier() or not key.islower()] == []
