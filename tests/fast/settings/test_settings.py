"""Settings are read once, and refused with the name, the value and the fix."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from duly.apps.ingest.settings import STATE_SETTINGS
from duly.configuration import WEEK_SECONDS
from duly.configuration.engine import DATABASE_VARIABLES, OUR_SCHEMAS, ROLE_SETTINGS, parse_address
from duly.errors import Misconfigured
from duly.settings import Settings, load_settings, variable_names

ADDRESS = "postgresql://user:hunter2@host/name"
SECRETS = (*DATABASE_VARIABLES, "DATABASE_DIRECT_URL")
SECONDS = ("LEASE_TIMEOUT_SECONDS", "LEASE_HEARTBEAT_SECONDS")
CONTRACT = {  # the ingest worker contract's own names and defaults
    "DATABASE_URL": None,
    "DB_SCHEMA": "schedule_ingest",
    "FIXTURE_PAYLOAD_PATH": Path("fixtures/sample_schedule.json"),
    "WORKER_ID": f"worker-{os.getpid()}",
    "LEASE_TIMEOUT_SECONDS": 300,
    "LEASE_HEARTBEAT_SECONDS": 10,
    "ENABLE_LEASE_HEARTBEAT": True,
    "SIMULATED_WORK_SECONDS": 0,
    "PENDING_STATE": "pending",
    "PROCESSING_STATE": "processing",
    "DONE_STATE": "done",
    "FAILED_STATE": "failed",
}
DULY_DEFAULTS = {
    "TELEGRAM_BOT_TOKEN": None,
    "DULY_TELEGRAM_ON_CONSOLE": False,
    "TELEGRAM_API_URL": "https://api.telegram.org",
    "TELEGRAM_WEBHOOK_URL": None,
    "TELEGRAM_WEBHOOK_SECRET": None,
    "TELEGRAM_ALLOWED_IDS": "",
    "TELEGRAM_NEWCOMERS": True,
    "TELEGRAM_SECONDS": 10,
    "TELEGRAM_POLL_SECONDS": 25,
    "WORKER_INPUT_MODE": None,
    "SESSION_IDLE_TIMEOUT_SECONDS": 25,
    "WORKER_POLL_SECONDS": 5,
    "WORKER_IDLE_LOG_EVERY": 12,
    "NOTIFICATION_SUMMARY_THRESHOLD": 3,
    "ENABLE_CHAOS_PARSER": False,
    "CHAOS_SEED": 0,
    "OCR_ENGINE": "auto",
    "OCR_LANG": "sv",
    "OCR_DEFAULT_YEAR": None,
    "TESSDATA_PREFIX": None,
    "OCR_IMAGE_SECONDS": 120,
    "OCR_MEMORY_MB": 4096,
    "DATABASE_DIRECT_URL": None,
    "DULY_POOL_SIZE": 10,
    "DULY_HOME": Path(".duly"),
    "DULY_PGBIN": None,
    "DULY_PGUSER": None,
    "DULY_HOST": "127.0.0.1",
    "DULY_PORT": None,
    "DULY_OWNER_ROLE": "duly_owner",
    "DULY_WORKER_ROLE": "duly_worker",
    "DULY_API_ROLE": "duly_api",
    "DULY_READONLY_ROLE": "duly_readonly",
    "DULY_APP": None,
    "DULY_WORKER_SLOTS": 50,
    "DULY_WORKER_CHILDREN": os.cpu_count() or 1,
    "DULY_POLL_SECONDS": 1,
    "DULY_SWEEP_SECONDS": 5,
    "DULY_STOP_SECONDS": 20,
    "DULY_WORKER_PORT": None,
    "DULY_SCHEDULER_SLOTS": 200,
    "DULY_SCHEDULER_HORIZON_SECONDS": 3600,
    "DULY_SCHEDULER_REVERSAL_SECONDS": 600,
    "DULY_SENDER_SLOTS": 100,
    "DULY_SENDER_LEASE_SECONDS": 60,
    "DULY_SENDER_OFF": "",
    "DULY_SENDER_RETAIN_DAYS": 90,
    "DULY_WEBHOOK_SECONDS": 10,
    "DULY_WEBHOOK_ALLOW_PRIVATE": False,
    "DULY_POSTS_SLOTS": 50,
    "DULY_POSTS_LEASE_SECONDS": 60,
    "DULY_POSTS_ANALYZER_SECONDS": 20,
    "DULY_POSTS_ANALYZER": "rules",
    "OPENAI_BASE_URL": None,
    "OPENAI_API_KEY": None,
    "OPENAI_MODEL": None,
    "DULY_OPENAI_SECONDS": 8,
    "DULY_ALERT_CHANNEL": "console",
    "DULY_ALERT_RECIPIENT": None,
    "DULY_APPS": "posts,scheduler,ingest",
    "DULY_PUBLIC_URL": None,
    "DULY_OBJECTS_DIR": None,
    "R2_BUCKET": None,
    "R2_ENDPOINT_URL": None,
    "R2_ACCESS_KEY_ID": None,
    "R2_SECRET_ACCESS_KEY": None,
    "R2_REGION": "auto",
    "R2_KEY_PREFIX": "",
    "DULY_LOG_LEVEL": "info",
    "DULY_LOG_FORMAT": "auto",
}
BAD_NAMES = (
    " ",
    "a b",
    "1a",
    "a-b",
    "a.b",
    'a"b',
    "a'b",
    '"',
    "a; drop schema public cascade",
    "a\n",
    "Schedule",
    "SCHEDULE_INGEST",
    "schéma",
    "\uff41",  # a wide a
    "a" * 64,
    "pg_catalog",
    "pg_",
)


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        for variable in variable_names(name):
            monkeypatch.delenv(variable, raising=False)


def read(**variables: str) -> Settings:
    with pytest.MonkeyPatch.context() as environment:
        for name, value in variables.items():
            environment.setenv(name, value)
        return load_settings()


def refusal(**variables: str) -> str:
    with pytest.raises(Misconfigured) as refused:
        read(**variables)
    return str(refused.value)


def refusal_if_any(**variables: str) -> str:
    """Read settings that may be accepted: the refusal, or "" when there is none."""
    try:
        read(**variables)
    except Misconfigured as error:
        return str(error)
    return ""


def value_of(settings: Settings, variable: str) -> object:
    return next(value for name, value in settings if variable in variable_names(name))


def test_every_setting_has_its_default() -> None:
    settings = read()
    known = {variable for name in Settings.model_fields for variable in variable_names(name)}
    offenders: list[str] = []
    for variable, default in {**CONTRACT, **DULY_DEFAULTS}.items():
        found = value_of(settings, variable) if variable in known else "(no such setting)"
        if found != default:
            offenders.append(f"{variable}: expected {default!r}, found {found!r}")
    assert not offenders, "\n".join(offenders)


def test_every_setting_default_is_tested() -> None:
    variables = {variable_names(name)[0] for name in Settings.model_fields}
    assert variables == {*CONTRACT, *DULY_DEFAULTS}


def test_only_the_documented_variable_names_are_read() -> None:
    assert read(HOME="/somewhere/else", PORT="1", db_schema="other", Worker_Id="other") == Settings()


def test_empty_variable_counts_as_unset() -> None:
    without = Settings()
    offenders: list[str] = []
    for variable in (*CONTRACT, *DULY_DEFAULTS):
        try:
            found = read(**{variable: ""})
        except Misconfigured as refused:
            offenders.append(f"{variable}: refused: {refused}")
        else:
            if found != without:
                changed = {name: value for name, value in found if value != getattr(without, name)}
                offenders.append(f"{variable}: changes {changed}")
    assert not offenders, "\n".join(offenders)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().db_schema = "other"


def test_first_of_the_three_database_urls_takes_precedence() -> None:
    assert DATABASE_VARIABLES == ("DATABASE_URL", "POSTGRES_DSN", "TEST_DATABASE_URL")
    for first in range(3):
        addresses = {name: f"postgresql://{name.lower()}/duly_test" for name in DATABASE_VARIABLES[first:]}
        url = read(**addresses).database_url
        assert url
        assert url.get_secret_value() == addresses[DATABASE_VARIABLES[first]]


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "postgresql+asyncpg", "postgres+psycopg2", "postgresql"])
@pytest.mark.parametrize("variable", [*DATABASE_VARIABLES, "DATABASE_DIRECT_URL"])
def test_sqlalchemy_url_is_read_as_a_postgresql_url(scheme: str, variable: str) -> None:
    spelled = f"{scheme}://user:secret@host:5433/duly_test"
    if variable == "DATABASE_DIRECT_URL":
        url = read(DATABASE_URL=ADDRESS, DATABASE_DIRECT_URL=spelled).database_direct_url
    else:
        url = read(**{variable: spelled}).database_url
    assert url
    assert url.get_secret_value() == f"{scheme.partition('+')[0]}://user:secret@host:5433/duly_test"
    assert parse_address(spelled) == parse_address(url.get_secret_value())


def test_empty_database_url_falls_back_to_the_next() -> None:
    url = read(DATABASE_URL="", POSTGRES_DSN=ADDRESS).database_url
    assert url
    assert url.get_secret_value() == ADDRESS


@pytest.mark.parametrize(
    ("variable", "value", "expected_text"),
    [
        ("DULY_PORT", "eighty", "an integer from 0 to 65535"),
        ("DULY_PORT", "70000", "65535"),
        ("DULY_PORT", "-1", "from 0"),
        ("DULY_HOST", "example.org", "an IP address or localhost"),
        ("DULY_HOST", "127.0.0.1:80", "an IP address or localhost"),
        ("DULY_HOST", "0", "an IP address or localhost"),
        ("DULY_POOL_SIZE", "0", "from 1 to 200"),
        ("DULY_POOL_SIZE", "201", "from 1 to 200"),
        ("DULY_POOL_SIZE", "2.5", "an integer"),
        ("DULY_LOG_FORMAT", "xml", "auto, json or pretty"),
        ("DULY_LOG_FORMAT", "JSON", "auto, json or pretty"),
        ("ENABLE_LEASE_HEARTBEAT", "maybe", "true, yes or on"),
        ("ENABLE_LEASE_HEARTBEAT", "2", "true, yes or on"),
        ("SIMULATED_WORK_SECONDS", "-0.1", "from 0"),
        ("SIMULATED_WORK_SECONDS", "inf", "one week"),
        ("WORKER_ID", "   ", "not only blanks"),
        ("WORKER_ID", "büro\u00a01", "printable"),
        ("WORKER_ID", "a\u200b", "printable"),
        ("WORKER_ID", "a/b", "without /"),
        ("WORKER_ID", "a" * 201, "1 to 200"),
        ("WORKER_ID", "a\nb", "printable"),
        ("WORKER_ID", "a\x7fb", "printable"),
        ("WORKER_ID", "a\x85b", "printable"),
        ("WORKER_ID", "a\u2028b", "printable"),
        ("WORKER_ID", "a\udcffb", "printable"),
        ("DB_SCHEMA", "information_schema", "information_schema"),
        *(("DB_SCHEMA", schema, f"a schema of ours ({', '.join(OUR_SCHEMAS)})") for schema in OUR_SCHEMAS),
        *(("DB_SCHEMA", name, "1 to 63 of a-z") for name in (*BAD_NAMES, "\udcff")),
        *(("DULY_OWNER_ROLE", name, "1 to 63 of a-z") for name in (*BAD_NAMES, "public", "none")),
        *(("DULY_READONLY_ROLE", name, "1 to 63 of a-z") for name in BAD_NAMES),
        *(("PENDING_STATE", name, "1 to 63 of a-z") for name in ("1", "a b", "a'b", "a" * 64, "fertig!", "a\n")),
        *((name, value, "above 0") for name in SECONDS for value in ("0", "-1", "nan", "soon", "10s", "1,5", "-inf")),
        *((name, value, "604800 (one week)") for name in SECONDS for value in ("604800.1", "inf", "1e300")),
    ],
)
def test_invalid_value_is_refused_with_name_value_and_fix(variable: str, value: str, expected_text: str) -> None:
    message = refusal(**{variable: value})
    assert message.startswith(f"{variable}={repr(value)[:100]}")
    assert expected_text in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize("value", ["1", "true", "yes", "on", "TRUE", "Yes"])
def test_true_values_of_a_boolean_setting(value: str) -> None:
    assert read(ENABLE_LEASE_HEARTBEAT=value).enable_lease_heartbeat is True


@pytest.mark.parametrize("value", ["0", "false", "no", "off", "FALSE", "No"])
def test_false_values_of_a_boolean_setting(value: str) -> None:
    assert read(ENABLE_LEASE_HEARTBEAT=value).enable_lease_heartbeat is False


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DB_SCHEMA", "public"),
        ("DB_SCHEMA", "a" * 63),
        ("DB_SCHEMA", "_"),
        ("DB_SCHEMA", "duly_ingest"),
        ("DB_SCHEMA", "users"),
        ("DB_SCHEMA", "pga"),
        ("WORKER_ID", "a" * 200),
        ("WORKER_ID", "Värmland 1"),
        ("PENDING_STATE", "OPEN"),
        ("PENDING_STATE", "a" * 63),
        ("DULY_API_ROLE", "web"),
        ("DULY_HOST", "localhost"),
        ("DULY_HOST", "0.0.0.0"),
        ("DULY_HOST", "::"),
        ("DULY_HOST", "192.0.2.7"),
    ],
)
def test_names_within_the_limits_are_accepted_unchanged(variable: str, value: str) -> None:
    assert value_of(read(**{variable: value}), variable) == value


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")) | st.from_regex(r"\A[a-z_0-9]{1,64}\Z"))
@example("pg_toast")
@example("user")
@example("public")
def test_schema_name_is_refused_unless_it_needs_no_quotes(text: str) -> None:
    harmless = re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", text) and not text.startswith("pg_")
    if text == "" or (harmless and text not in {"information_schema", *OUR_SCHEMAS}):
        assert read(DB_SCHEMA=text).db_schema == (text or "schedule_ingest")
    else:
        assert refusal(DB_SCHEMA=text).startswith("DB_SCHEMA=")


@pytest.mark.parametrize("seconds", ["0.001", "1", "29.5", str(WEEK_SECONDS)])
def test_a_lease_may_last_up_to_a_week(seconds: str) -> None:
    settings = read(LEASE_TIMEOUT_SECONDS=seconds, ENABLE_LEASE_HEARTBEAT="no")
    assert settings.lease_timeout_seconds == float(seconds)


@pytest.mark.parametrize(
    ("timeout", "interval"), [("30", "9.99"), ("300", "99.9"), ("0.4", "0.1"), ("604800", "201599")]
)
def test_a_heartbeat_below_a_third_of_the_lease_is_accepted(timeout: str, interval: str) -> None:
    settings = read(LEASE_TIMEOUT_SECONDS=timeout, LEASE_HEARTBEAT_SECONDS=interval)
    assert settings.lease_heartbeat_seconds == float(interval)


@pytest.mark.parametrize(
    ("timeout", "interval", "below"),
    [("30", "10", "10"), ("30", "10.01", "10"), ("300", "100", "100"), ("1.5", "0.5", "0.5"), ("604800", "201600", "")],
)
def test_a_heartbeat_of_a_third_of_the_lease_or_more_is_refused(timeout: str, interval: str, below: str) -> None:
    message = refusal(LEASE_TIMEOUT_SECONDS=timeout, LEASE_HEARTBEAT_SECONDS=interval)
    assert message.startswith(f"LEASE_HEARTBEAT_SECONDS='{interval}': ")
    assert f"LEASE_TIMEOUT_SECONDS={timeout};" in message
    assert f"below {below}" in message


def test_a_lease_too_short_for_the_default_heartbeat_is_refused() -> None:
    assert refusal(LEASE_TIMEOUT_SECONDS="30") == (
        "LEASE_HEARTBEAT_SECONDS=10: must be less than a third of LEASE_TIMEOUT_SECONDS=30; set it below 10, "
        "raise LEASE_TIMEOUT_SECONDS, or set ENABLE_LEASE_HEARTBEAT=false"
    )


def test_heartbeat_interval_is_not_checked_when_the_heartbeat_is_disabled() -> None:
    assert read(LEASE_TIMEOUT_SECONDS="1", LEASE_HEARTBEAT_SECONDS="1", ENABLE_LEASE_HEARTBEAT="off")


PAIRS = [
    (likes[first], likes[second])
    for likes in (STATE_SETTINGS, ROLE_SETTINGS)
    for second in range(4)
    for first in range(second)
]


def test_duplicate_state_or_role_names_are_refused() -> None:
    offenders: list[str] = []
    for first, second in PAIRS:
        one, other = variable_names(first)[0], variable_names(second)[0]
        message = refusal_if_any(**{one: "same", other: "same"})
        if f"{other}='same': {one}='same' has the same name" not in message:
            offenders.append(f"{one} and {other}: {message or 'accepted'}")
    assert not offenders, "\n".join(offenders)


def test_state_name_equal_to_the_default_of_another_state_is_refused() -> None:
    assert "FAILED_STATE='failed': PENDING_STATE='failed' has the same name" in refusal(PENDING_STATE="failed")


def test_state_names_may_be_swapped() -> None:
    settings = read(PENDING_STATE="done", DONE_STATE="pending")
    assert (settings.pending_state, settings.done_state) == ("done", "pending")


def test_all_problems_are_reported_at_once_one_per_line() -> None:
    message = refusal(
        DULY_PORT="x", DB_SCHEMA="Bad", LEASE_TIMEOUT_SECONDS="30", DONE_STATE="pending", POSTGRES_DSN="x y"
    )
    assert [line.split("=")[0] for line in message.splitlines()] == [
        "POSTGRES_DSN",
        "DULY_PORT",
        "DB_SCHEMA",
        "LEASE_HEARTBEAT_SECONDS",
        "DONE_STATE",
    ]


def test_invalid_value_causes_no_error_about_another_setting() -> None:
    assert refusal(LEASE_TIMEOUT_SECONDS="soon").splitlines()[1:] == []
    assert refusal(ENABLE_LEASE_HEARTBEAT="perhaps", LEASE_TIMEOUT_SECONDS="1").splitlines()[1:] == []


def test_long_value_is_truncated_in_the_error() -> None:
    assert len(refusal(DB_SCHEMA="x" * 100_000)) < 500


def test_database_direct_url_requires_database_url() -> None:
    assert refusal(DATABASE_DIRECT_URL=ADDRESS) == (
        "DATABASE_DIRECT_URL=***: DATABASE_URL is not set; set it to the same database, or unset DATABASE_DIRECT_URL"
    )
    direct = read(DATABASE_DIRECT_URL=ADDRESS, POSTGRES_DSN="postgresql://pooler/name").database_direct_url
    assert direct
    assert direct.get_secret_value() == ADDRESS


def test_every_database_url_is_stored_as_a_secret() -> None:
    addresses = {variable for name in ("database_url", "database_direct_url") for variable in variable_names(name)}
    secret = {name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)}
    assert addresses == set(SECRETS)
    tokens = {"objects_secret", "openai_api_key", "telegram_token", "telegram_webhook_secret"}
    assert secret == {"database_url", "database_direct_url", *tokens}


@pytest.mark.parametrize("token", ["123456", "123456:short", "bot123456:" + "A" * 35, "123456:" + "A" * 30 + " x"])
def test_invalid_bot_token_is_refused_without_being_shown(token: str) -> None:
    assert refusal(TELEGRAM_BOT_TOKEN=token) == (
        "TELEGRAM_BOT_TOKEN=***: must be a bot's token as BotFather gives it: a number, a colon and some 35 characters"
    )


def test_telegram_webhook_url_requires_a_secret() -> None:
    assert "set TELEGRAM_WEBHOOK_SECRET" in refusal(TELEGRAM_WEBHOOK_URL="https://duly.example.com/telegram/hook")
    assert "which is what Telegram takes" in refusal(TELEGRAM_WEBHOOK_SECRET="å")  # noqa: S106
    assert "must be Telegram ids" in refusal(TELEGRAM_ALLOWED_IDS="42, 43")
    assert "must be an address" in refusal(TELEGRAM_API_URL="api.telegram.org")


def test_post_lease_must_be_shorter_than_the_stuck_threshold() -> None:
    assert read(DULY_POSTS_LEASE_SECONDS="890").posts_lease_seconds == 890
    assert refusal(DULY_POSTS_LEASE_SECONDS="895") == (
        "DULY_POSTS_LEASE_SECONDS='895': with DULY_SWEEP_SECONDS=5 a post could be held for 900 s, and one that is "
        "held for 900 s counts as stuck; make the two together less than that"
    )
    assert "DULY_SWEEP_SECONDS=840 a post" in refusal(DULY_SWEEP_SECONDS="840")


def test_a_bucket_needs_its_key_and_its_secret_is_never_shown() -> None:
    expected_text = (
        "R2_SECRET_ACCESS_KEY=***: R2_BUCKET is set, and needs both R2_ACCESS_KEY_ID and R2_SECRET_ACCESS_KEY; set them"
    )
    assert refusal(R2_BUCKET="photos") == expected_text
    assert refusal(R2_BUCKET="photos", R2_SECRET_ACCESS_KEY=ADDRESS) == expected_text
    both = read(S3_BUCKET="photos", AWS_ACCESS_KEY_ID="me", R2_SECRET_ACCESS_KEY=ADDRESS)
    assert both.objects_bucket == "photos"
    assert "hunter2" not in repr(both)
    assert "3 to 63" in refusal(R2_BUCKET="../x")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql:/user:hunter2@host/name",
        "postgresql://user:a@hunter2/x@host/name",
        "postgresql://user:hunter2\udcff@host/name",
        "hunter2",
    ],
)
def test_invalid_database_url_is_refused_by_name_without_being_shown(address: str) -> None:
    offenders: list[str] = []
    for variable in SECRETS:
        message = refusal_if_any(**{variable: address})
        begins = message.startswith(f"{variable}=***: not a PostgreSQL address; write ")
        if not begins or "hunter2" in message or "udcff" in message:
            offenders.append(f"{variable}: {message or 'accepted'}")
    assert not offenders, "\n".join(offenders)


def test_database_url_is_not_shown_beside_another_problem() -> None:
    offenders: list[str] = []
    for variable in SECRETS:
        message = refusal_if_any(**{variable: ADDRESS, "LEASE_TIMEOUT_SECONDS": "30", "DONE_STATE": "pending"})
        if not message or "hunter2" in message:
            offenders.append(f"{variable}: {message or 'accepted'}")
    assert not offenders, "\n".join(offenders)


def test_chained_error_does_not_show_a_database_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql:/user:hunter2@host/name")
    with pytest.raises(ValidationError) as refused:
        Settings()
    assert "hunter2" not in str(refused.value)


def test_printed_settings_do_not_show_database_urls() -> None:
    settings = read(DATABASE_URL=ADDRESS, DATABASE_DIRECT_URL=ADDRESS)
    assert isinstance(settings.database_url, SecretStr)
    assert "hunter2" not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"


def test_database_url_that_cannot_be_encoded_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^not a PostgreSQL address"):
        parse_address("postgresql://user:\udcff@host/name")
