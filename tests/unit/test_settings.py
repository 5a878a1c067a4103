"""Settings are read once, and refused with the name, the value and the fix."""

from pathlib import Path

import pytest

from duly.errors import Misconfigured
from duly.settings import Settings, load_settings


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "POSTGRES_DSN", "TEST_DATABASE_URL", "DULY_HOME", "DULY_PORT", "DULY_HOST"):
        monkeypatch.delenv(name, raising=False)


def test_the_defaults_need_no_environment() -> None:
    settings = load_settings()
    assert (settings.database_url, settings.home, settings.host) == (None, Path(".duly"), "127.0.0.1")


def test_only_the_written_names_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere/else")
    monkeypatch.setenv("PORT", "1")
    assert load_settings() == Settings()
    assert load_settings().home == Path(".duly")


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "")
    monkeypatch.setenv("DULY_PORT", "")
    assert load_settings().database_url is None


def test_the_first_of_the_three_addresses_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TEST_DATABASE_URL", "POSTGRES_DSN", "DATABASE_URL"):
        monkeypatch.setenv(name, f"postgresql://{name.lower()}/duly_test")
        url = load_settings().database_url
        assert url
        assert url.get_secret_value() == f"postgresql://{name.lower()}/duly_test"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("DULY_PORT", "eighty", "integer"),
        ("DULY_PORT", "70000", "65535"),
        ("DULY_HOST", "0.0.0.0", "127.0.0.1"),
        ("DULY_HOST", "example.org", "this machine only"),
    ],
)
def test_a_bad_value_is_refused_by_name_value_and_fix(
    name: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(Misconfigured) as refusal:
        load_settings()
    assert f"{name}='{value}'" in str(refusal.value)
    assert words in str(refusal.value)


def test_a_bad_address_is_refused_without_showing_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql:/user:hunter2@host/name")
    with pytest.raises(Misconfigured, match="not a PostgreSQL address") as refusal:
        load_settings()
    assert "hunter2" not in str(refusal.value)


def test_settings_do_not_show_the_address_when_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://user:hunter2@host/name")
    assert "hunter2" not in repr(load_settings())
