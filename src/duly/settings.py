"""Every environment variable duly reads, read once into one frozen object.

A bad value is refused at the start, with the variable's name, the value and the fix; all bad values are named at once.
Rules between two variables are checked by the later field, which can see the earlier ones: the order of fields matters.
`docs/configuration.md` is made from this file: `DULY_UPDATE_GOLDEN=1 ./duly test tests/fast/docs`.
"""

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from duly.errors import Misconfigured

__all__ = [
    "DATABASE_VARIABLES",
    "DEFAULT_PORT",
    "MAX_WORKER_ID_LENGTH",
    "OPENAI_RETRIES",
    "OPENAI_WAIT_SECONDS",
    "OUR_SCHEMAS",
    "Accepts",
    "Section",
    "Settings",
    "accepted_by",
    "is_for_tests",
    "is_worker_id",
    "load_settings",
    "parse_address",
    "plain_address",
    "unknown_variables",
    "variable_read_for",
    "variables_of",
]

DATABASE_VARIABLES = ("DATABASE_URL", "POSTGRES_DSN", "TEST_DATABASE_URL")
DEFAULT_PORT = 8420
OUR_SCHEMAS = ("duly", "ledger", "posts", "scheduler", "expense", "user")
STATES = ("pending_state", "processing_state", "done_state", "failed_state")
ROLES = ("owner_role", "worker_role", "api_role", "readonly_role")
WEEK_SECONDS = 604_800
OPENAI_RETRIES, OPENAI_WAIT_SECONDS = 1, 2.0  # how often a model is asked again, and how long is waited before
STUCK_SECONDS = 900  # the posts contract: 0 documents in PROCESSING for longer
SHOWN_CHARACTERS = 100
MAX_WORKER_ID_LENGTH = 200
PREFIX = "DULY_"
INTERNAL = re.compile(r"DULY_(COMMAND|CRASHPOINT|LIFELINE|PYTHON|UPDATE_GOLDEN|TEST_\w+)")  # read, and no settings


class Section(StrEnum):
    """The headings of docs/configuration.md, in their order."""

    DATABASE = "The database"
    EMBEDDED = "The embedded server"
    API = "The API"
    INGEST = "The ingest worker"
    OCR = "Reading photographs"
    LEASE = "The ingest worker's lease"
    STATE = "The states of a capture session"
    ROLE = "The roles that migrations grant to"
    WORKER = "Every worker"
    SCHEDULER = "Scheduler"
    POSTS = "Posts"
    DELIVERY = "Delivery"
    TELEGRAM = "Telegram"
    OBJECTS = "Where images are kept"
    LOG = "Logs"


@dataclass(frozen=True)
class Accepts:
    """What a setting may be, in words that follow "must be"."""

    words: str


def setting(section: Section, *variables: str, default: object = None, unset: str = "", description: str) -> Any:
    """A field that is read from the first of these variables that is set; `unset` tells the default in words."""
    return Field(
        default_factory=default if callable(default) else lambda: default,
        validation_alias=AliasChoices(*variables),
        description=description,
        json_schema_extra={"section": section, "unset": unset},
    )


def name_other_than(*taken: str) -> str:
    """The pattern of a PostgreSQL name that needs no quotes and is none of those taken."""
    return rf"\A(?!pg_)(?!(?:{'|'.join(taken)})\Z)[a-z_][a-z0-9_]{{0,62}}\Z"


def is_worker_id(name: str) -> bool:
    """May a worker be called so? What a line cannot show is no name; every claim asks again."""
    return 0 < len(name) <= MAX_WORKER_ID_LENGTH and name.isprintable() and not name.isspace()


def checked_worker_name(name: str) -> str:
    """A worker's name as the environment may give it: what we append begins with a slash."""
    if "/" in name or not is_worker_id(name):
        raise ValueError(f"must be 1 to {MAX_WORKER_ID_LENGTH} printable characters without /, and not only blanks")
    return name


NAME_WORDS = "1 to 63 of a-z, 0-9 and _, not beginning with a digit or pg_"

Address = Annotated[SecretStr | None, Accepts("a PostgreSQL address")]
SchemaName = Annotated[
    str,
    Field(pattern=name_other_than("information_schema", *OUR_SCHEMAS)),
    Accepts(f"{NAME_WORDS}, and neither information_schema nor a schema of ours ({', '.join(OUR_SCHEMAS)})"),
]
RoleName = Annotated[
    str,
    Field(pattern=name_other_than("public", "none")),  # the two names PostgreSQL keeps for itself
    Accepts(f"{NAME_WORDS}, and neither public nor none"),
]
StateName = Annotated[
    str,
    Field(pattern=r"\A[A-Za-z_][A-Za-z0-9_]{0,62}\Z"),
    Accepts("1 to 63 of a-z, A-Z, 0-9 and _, not beginning with a digit"),
]
WorkerName = Annotated[
    str,
    AfterValidator(checked_worker_name),
    Accepts(f"1 to {MAX_WORKER_ID_LENGTH} printable characters without /, and not only blanks"),
]
Seconds = Annotated[
    float,
    Field(gt=0, le=WEEK_SECONDS, allow_inf_nan=False),
    Accepts(f"a number above 0 and at most {WEEK_SECONDS} (one week)"),
]
SecondsOrZero = Annotated[
    float,
    Field(ge=0, le=WEEK_SECONDS, allow_inf_nan=False),
    Accepts(f"a number from 0 to {WEEK_SECONDS} (one week)"),
]
Bucket = Annotated[
    str | None,
    Field(pattern=r"\A[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z"),
    Accepts("3 to 63 of a-z, 0-9, . and -, beginning and ending with a letter or digit"),
]
ChannelNames = Annotated[
    str,
    Field(pattern=r"\A(?:[a-z][a-z0-9_]*(?:,[a-z][a-z0-9_]*)*)?\Z"),
    Accepts("names of channels with commas between, such as telegram,webhook"),
]
WebAddress = Annotated[
    str,
    Field(pattern=r"\Ahttps?://[A-Za-z0-9.:\[\]-]+(?:/[A-Za-z0-9._~/-]*)?\Z", max_length=500),
    Accepts("an address such as https://example.com, without a query or a password"),
]
TelegramIds = Annotated[
    str,
    Field(pattern=r"\A(?:[1-9]\d{0,18}(?:,[1-9]\d{0,18})*)?\Z"),
    Accepts("Telegram ids with commas between, such as 42,43"),
]
Region = Annotated[str, Field(pattern=r"\A[a-z0-9-]{1,32}\Z"), Accepts("1 to 32 of a-z, 0-9 and -")]
KeyPrefix = Annotated[
    str,
    Field(pattern=r"\A(?:[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}(?:/[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}){0,7}/?)?\Z"),
    Accepts("up to 8 names of A-Z, a-z, 0-9, ., _ and -, with / between them"),
]
Switch = Annotated[bool, Accepts("1, true, yes or on, or else 0, false, no or off")]
Port = Annotated[int | None, Field(ge=0, le=65535), Accepts("an integer from 0 to 65535")]
PoolSize = Annotated[int, Field(ge=1, le=200), Accepts("an integer from 1 to 200")]
Count = Annotated[int, Field(ge=1, le=10_000), Accepts("an integer from 1 to 10000")]
InputMode = Annotated[Literal["fixture", "ocr"] | None, Accepts("fixture or ocr")]
OcrEngine = Annotated[Literal["auto", "rapidocr", "tesseract"], Accepts("auto, rapidocr or tesseract")]
Language = Annotated[str, Field(pattern=r"\A[a-z]{2,3}\Z"), Accepts("two or three of a-z, such as sv")]
Year = Annotated[int | None, Field(ge=2000, le=2199), Accepts("an integer from 2000 to 2199")]
Megabytes = Annotated[int, Field(ge=512, le=1_048_576), Accepts("an integer from 512 to 1048576")]
AnalyzerName = Annotated[Literal["rules", "openai"], Accepts("rules or openai")]
ModelName = Annotated[str | None, Field(pattern=r"\A[!-~]{1,200}\Z"), Accepts("1 to 200 visible ASCII characters")]
LogLevel = Annotated[Literal["debug", "info", "warning", "error"], Accepts("debug, info, warning or error")]
LogFormat = Annotated[Literal["auto", "json", "pretty"], Accepts("auto, json or pretty")]


class Settings(BaseSettings):
    """What a process was told by its environment."""

    model_config = SettingsConfigDict(
        frozen=True,
        env_ignore_empty=True,
        extra="ignore",
        case_sensitive=True,
        regex_engine="python-re",  # the other one cannot say "not beginning with"
        hide_input_in_errors=True,  # it may be a password
    )

    database_url: Address = setting(
        Section.DATABASE,
        *DATABASE_VARIABLES,
        unset="an embedded server",
        description="The PostgreSQL to use; the first of these that is set wins. Of several hosts, with commas "
        "between, the one that takes writes is taken, unless the address has a `target_session_attrs` of its own. "
        "SQLAlchemy's `postgresql+psycopg://` is understood too.",
    )
    database_direct_url: Address = setting(
        Section.DATABASE,
        "DATABASE_DIRECT_URL",
        unset="the same as `DATABASE_URL`",
        description="A connection past a pooler, for LISTEN and migrations.",
    )
    pool_size: PoolSize = setting(
        Section.DATABASE,
        "DULY_POOL_SIZE",
        default=10,
        description="How many connections a process may hold; a worker needs 5.",
    )

    home: Path = setting(
        Section.EMBEDDED,
        "DULY_HOME",
        default=Path(".duly"),
        description="Where the embedded server keeps data, socket and logs.",
    )
    pgbin: Path | None = setting(
        Section.EMBEDDED,
        "DULY_PGBIN",
        unset="found by itself",
        description="The bin directory of the PostgreSQL to embed.",
    )
    pguser: str | None = setting(
        Section.EMBEDDED,
        "DULY_PGUSER",
        unset="`postgres`, else `nobody`",
        description="As root: the account the embedded server runs under.",
    )

    host: Annotated[str, Accepts("an IP address or localhost")] = setting(
        Section.API,
        "DULY_HOST",
        default="127.0.0.1",
        description="The address the API listens on; one that others can reach needs an API key in the database.",
    )
    port: Port = setting(
        Section.API,
        "DULY_PORT",
        unset=f"{DEFAULT_PORT}, or a free one if taken",
        description="The port of the API; 0 takes any free one.",
    )

    public_url: WebAddress | None = setting(
        Section.API,
        "DULY_PUBLIC_URL",
        unset="messages have no links",
        description="Where people reach the API from outside, for example https://duly.example.com: messages without "
        "buttons then carry links that answer.",
    )

    db_schema: SchemaName = setting(
        Section.INGEST, "DB_SCHEMA", default="schedule_ingest", description="The schema that holds the ingest tables."
    )
    fixture_payload_path: Path = setting(
        Section.INGEST,
        "FIXTURE_PAYLOAD_PATH",
        default=Path("fixtures/sample_schedule.json"),
        description="The JSON file a worker takes for what it has read; the default is found in the checkout too.",
    )
    worker_id: WorkerName = setting(
        Section.INGEST,
        "WORKER_ID",
        default=lambda: f"worker-{os.getpid()}",
        unset="`worker-<pid>`; for `duly worker` `<hostname>-<pid>`",
        description="The name a worker claims under; every claim adds `/` and a token of its own.",
    )
    simulated_work_seconds: SecondsOrZero = setting(
        Section.INGEST,
        "SIMULATED_WORK_SECONDS",
        default=0,
        description="For tests: how long a worker pretends to work before it settles.",
    )
    worker_input_mode: InputMode = setting(
        Section.INGEST,
        "WORKER_INPUT_MODE",
        unset="`ocr`; `fixture` for one cycle (`main.py`, `--once`)",
        description="What a worker takes for what it has read: the file of `FIXTURE_PAYLOAD_PATH` for every session, "
        "or with `ocr` the session's photographs.",
    )
    session_idle_seconds: SecondsOrZero = setting(
        Section.INGEST,
        "SESSION_IDLE_TIMEOUT_SECONDS",
        default=25,
        description="How long after its last image a session that nobody closed is complete, to a worker that goes on.",
    )
    ingest_poll_seconds: Seconds = setting(
        Section.INGEST,
        "WORKER_POLL_SECONDS",
        default=5,
        description="How often a worker that runs on looks for sessions; `duly up` starts its own with 1.",
    )
    idle_log_every: Count = setting(
        Section.INGEST,
        "WORKER_IDLE_LOG_EVERY",
        default=12,
        description="Of looks that find no session, the first is logged, and then one in so many.",
    )
    summary_threshold: Count = setting(
        Section.INGEST,
        "NOTIFICATION_SUMMARY_THRESHOLD",
        default=3,
        description="From so many changes of one session on, its person gets one message instead of one for each.",
    )
    enable_chaos_parser: Switch = setting(
        Section.INGEST,
        "ENABLE_CHAOS_PARSER",
        default=False,
        description="For tests: whether what is read is first spelled as a bad camera would, which changes no day.",
    )
    chaos_seed: Annotated[int, Accepts("an integer")] = setting(
        Section.INGEST, "CHAOS_SEED", default=0, description="The seed of that."
    )

    ocr_engine: OcrEngine = setting(
        Section.OCR,
        "OCR_ENGINE",
        default="auto",
        description="What reads photographs: `rapidocr`, checked by Tesseract where it has the language; `tesseract` "
        "alone, which needs less; `auto` takes the first of them that is installed.",
    )
    ocr_language: Language = setting(
        Section.OCR, "OCR_LANG", default="sv", description="The language of the photographs, for Tesseract."
    )
    ocr_tessdata: Path | None = setting(
        Section.OCR,
        "TESSDATA_PREFIX",
        unset="the usual places",
        description="The directory with Tesseract's languages, such as `swe.traineddata`.",
    )
    ocr_default_year: Year = setting(
        Section.OCR,
        "OCR_DEFAULT_YEAR",
        unset="the year it is, in UTC",
        description="The year that is meant where a photograph shows a day without one.",
    )
    ocr_seconds: Seconds = setting(
        Section.OCR, "OCR_IMAGE_SECONDS", default=120, description="How long reading one photograph may take."
    )
    ocr_memory_mb: Megabytes = setting(
        Section.OCR,
        "OCR_MEMORY_MB",
        default=4096,
        description="How much address space, in MiB, the process that reads photographs may use; about a quarter of it "
        "is memory.",
    )

    lease_timeout_seconds: Seconds = setting(
        Section.LEASE,
        "LEASE_TIMEOUT_SECONDS",
        default=300,
        description="How long a claim holds without a heartbeat; after that another worker may claim the session.",
    )
    enable_lease_heartbeat: Switch = setting(
        Section.LEASE, "ENABLE_LEASE_HEARTBEAT", default=True, description="Whether a worker renews its lease."
    )
    lease_heartbeat_seconds: Seconds = setting(
        Section.LEASE,
        "LEASE_HEARTBEAT_SECONDS",
        default=10,
        description="How often a worker renews its lease; while it does, less than a third of `LEASE_TIMEOUT_SECONDS`.",
    )

    pending_state: StateName = setting(
        Section.STATE, "PENDING_STATE", "OPEN_STATE", default="pending", description="Waits for a worker."
    )
    processing_state: StateName = setting(
        Section.STATE, "PROCESSING_STATE", default="processing", description="Is held by a worker."
    )
    done_state: StateName = setting(
        Section.STATE, "DONE_STATE", "PROCESSED_STATE", default="done", description="Is finished."
    )
    failed_state: StateName = setting(
        Section.STATE, "FAILED_STATE", default="failed", description="Ended with an error; all four must differ."
    )

    owner_role: RoleName = setting(
        Section.ROLE, "DULY_OWNER_ROLE", default="duly_owner", description="Owns schemas, tables and functions."
    )
    worker_role: RoleName = setting(
        Section.ROLE, "DULY_WORKER_ROLE", default="duly_worker", description="Claims and settles work."
    )
    api_role: RoleName = setting(
        Section.ROLE, "DULY_API_ROLE", default="duly_api", description="Accepts work and answers questions."
    )
    readonly_role: RoleName = setting(
        Section.ROLE, "DULY_READONLY_ROLE", default="duly_readonly", description="Only looks; all four must differ."
    )

    app: str | None = setting(
        Section.WORKER,
        "DULY_APP",
        default=None,
        unset="jobs wait for a worker that has handlers",
        description="What a worker performs, as module:variable of a duly.App, found from the directory it runs in.",
    )
    worker_slots: Count = setting(
        Section.WORKER,
        "DULY_WORKER_SLOTS",
        default=50,
        description="How many rows of one kind a worker works on at once; of sessions with photographs, 8 at most.",
    )
    worker_children: Count = setting(
        Section.WORKER,
        "DULY_WORKER_CHILDREN",
        default=lambda: os.cpu_count() or 1,
        unset="as many as there are processors",
        description="How many child processes a worker keeps for work that asks for isolation.",
    )
    poll_seconds: Seconds = setting(
        Section.WORKER,
        "DULY_POLL_SECONDS",
        default=1,
        description="How often a worker with nothing to do looks for work that nobody woke it for.",
    )
    sweep_seconds: Seconds = setting(
        Section.WORKER,
        "DULY_SWEEP_SECONDS",
        default=5,
        description="How often a worker looks for rows whose holder is gone.",
    )
    stop_seconds: SecondsOrZero = setting(
        Section.WORKER,
        "DULY_STOP_SECONDS",
        default=20,
        description="How long a worker that was told to stop waits for what is under way, before it hands it back.",
    )
    worker_port: Port = setting(
        Section.WORKER,
        "DULY_WORKER_PORT",
        unset="no port is opened",
        description="A port at DULY_HOST for a worker's /healthz, /readyz and /metrics, which need no key; "
        "0 takes any free one.",
    )

    scheduler_slots: Count = setting(
        Section.SCHEDULER,
        "DULY_SCHEDULER_SLOTS",
        default=200,
        description="How many schedules a worker plans at once.",
    )
    scheduler_horizon_seconds: Seconds = setting(
        Section.SCHEDULER,
        "DULY_SCHEDULER_HORIZON_SECONDS",
        default=3600,
        description="How long before its reminder is due a run is made.",
    )
    scheduler_undo_seconds: Seconds = setting(
        Section.SCHEDULER,
        "DULY_SCHEDULER_UNDO_SECONDS",
        default=600,
        description="How long after an answer what it booked can be taken back.",
    )

    posts_slots: Count = setting(
        Section.POSTS,
        "DULY_POSTS_SLOTS",
        default=50,
        description="How many posts a worker reads at once, and so how many calls of the analyzer there are at a time.",
    )
    posts_lease_seconds: Seconds = setting(
        Section.POSTS,
        "DULY_POSTS_LEASE_SECONDS",
        default=60,
        description="How long a post is held without a heartbeat; with `DULY_SWEEP_SECONDS` less than 15 minutes, "
        "after which a post counts as stuck.",
    )
    posts_analyzer_seconds: Seconds = setting(
        Section.POSTS,
        "DULY_POSTS_ANALYZER_SECONDS",
        default=20,
        description="How long a reading may take; then the post is released with the fallback.",
    )
    posts_analyzer: AnalyzerName = setting(
        Section.POSTS,
        "DULY_POSTS_ANALYZER",
        "POSTS_ANALYZER",
        default="rules",
        description="Who reads posts: the built-in rules, or a model at a server that speaks OpenAI's API, which then "
        "is sent captions and small photographs.",
    )
    openai_base_url: WebAddress | None = setting(
        Section.POSTS,
        "OPENAI_BASE_URL",
        unset="OpenAI's own",
        description="Where that server is, for example http://localhost:11434/v1.",
    )
    openai_api_key: SecretStr | None = setting(
        Section.POSTS,
        "OPENAI_API_KEY",
        unset="none",
        description="The key to it; OpenAI's own needs one.",
    )
    openai_model: ModelName = setting(
        Section.POSTS, "OPENAI_MODEL", unset="none", description="Which of its models reads; it must see pictures."
    )
    openai_seconds: Seconds = setting(
        Section.POSTS,
        "DULY_OPENAI_SECONDS",
        default=8,
        description="How long one try may take; two of them and 2 s between must fit into "
        "`DULY_POSTS_ANALYZER_SECONDS` and into `DULY_POSTS_LEASE_SECONDS`.",
    )
    alert_channel: Annotated[str, Field(pattern=r"\A[a-z][a-z0-9_]{0,31}\Z"), Accepts("the name of a channel")] = (
        setting(
            Section.POSTS,
            "DULY_ALERT_CHANNEL",
            default="console",
            description="Where it is told when a promise of `./duly slo` is broken, and when it is kept again.",
        )
    )
    alert_recipient: Annotated[
        str | None, Field(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}\Z"), Accepts("the uid of a person")
    ] = setting(
        Section.POSTS,
        "DULY_ALERT_RECIPIENT",
        unset="`operator`, on the console",
        description="Who is told: the uid of a person who is reached by that channel.",
    )

    sender_slots: Count = setting(
        Section.DELIVERY,
        "DULY_SENDER_SLOTS",
        default=100,
        description="How many messages a worker sends at once.",
    )
    sender_lease_seconds: Seconds = setting(
        Section.DELIVERY,
        "DULY_SENDER_LEASE_SECONDS",
        default=60,
        description="How long a message is held without a heartbeat. One that was handed to a transport by then, and "
        "is not settled, is uncertain. A send may take half of it.",
    )
    sender_off: ChannelNames = setting(
        Section.DELIVERY,
        "DULY_SENDER_OFF",
        default="",
        unset="every channel is on",
        description="Channels that we do not send on: their messages wait for a program of yours.",
    )
    sender_retain_days: Count = setting(
        Section.DELIVERY,
        "DULY_SENDER_RETAIN_DAYS",
        default=90,
        description="How many days a message that was sent, or failed, is kept with its history.",
    )
    webhook_seconds: Seconds = setting(
        Section.DELIVERY,
        "DULY_WEBHOOK_SECONDS",
        default=10,
        description="How long a webhook's address, or a service of apprise, may take to answer.",
    )
    webhook_allow_private: bool = setting(
        Section.DELIVERY,
        "DULY_WEBHOOK_ALLOW_PRIVATE",
        default=False,
        description="Lets webhooks, and what apprise sends, go to addresses that are not public: to this machine and "
        "its networks.",
    )

    telegram_token: SecretStr | None = setting(
        Section.TELEGRAM,
        "TELEGRAM_BOT_TOKEN",
        unset="there is no bot; what is meant for Telegram waits, and fails after 7 days",
        description="The token that BotFather gave the bot. Buttons are signed with it: a new token ends the old ones.",
    )
    telegram_on_console: Switch = setting(
        Section.TELEGRAM,
        "DULY_TELEGRAM_ON_CONSOLE",
        default=False,
        description="Without a token, send what is meant for Telegram by the console instead of letting it wait. "
        "`duly up` on the embedded server turns this on for its worker.",
    )
    telegram_api_url: WebAddress = setting(
        Section.TELEGRAM,
        "TELEGRAM_API_URL",
        default="https://api.telegram.org",
        description="Where the Bot API is: Telegram's own, or a server of yours.",
    )
    telegram_webhook_url: WebAddress | None = setting(
        Section.TELEGRAM,
        "TELEGRAM_WEBHOOK_URL",
        unset="the bot asks for updates by long polling",
        description="Where Telegram reaches our API, ending in /telegram/hook: updates are posted there then.",
    )
    telegram_webhook_secret: SecretStr | None = setting(
        Section.TELEGRAM,
        "TELEGRAM_WEBHOOK_SECRET",
        unset="no update is taken by webhook",
        description="What Telegram sends along with every update, so that we know it is Telegram.",
    )
    telegram_allowed: TelegramIds = setting(
        Section.TELEGRAM,
        "TELEGRAM_ALLOWED_IDS",
        default="",
        unset="everybody",
        description="The Telegram ids that the bot talks to; it tells all others that it is private.",
    )
    telegram_newcomers: Switch = setting(
        Section.TELEGRAM,
        "TELEGRAM_NEWCOMERS",
        default=True,
        description="Whether somebody who writes to the bot for the first time becomes a person; otherwise they need a "
        "link from `duly users link`.",
    )
    telegram_seconds: Seconds = setting(
        Section.TELEGRAM,
        "TELEGRAM_SECONDS",
        default=10,
        description="How long the Bot API may take to answer; a message whose answer does not come is uncertain.",
    )
    telegram_poll_seconds: Seconds = setting(
        Section.TELEGRAM,
        "TELEGRAM_POLL_SECONDS",
        default=25,
        description="How long one question for updates waits at the Bot API when there are none.",
    )

    objects_directory: Path | None = setting(
        Section.OBJECTS,
        "DULY_OBJECTS_DIR",
        unset="`objects` in `DULY_HOME`",
        description="The directory that keeps images, as long as no bucket is named.",
    )
    objects_bucket: Bucket = setting(
        Section.OBJECTS,
        "R2_BUCKET",
        "S3_BUCKET",
        "AWS_BUCKET",
        unset="a directory",
        description="The bucket of an S3-compatible store that keeps images; it needs both keys.",
    )
    objects_endpoint: str | None = setting(
        Section.OBJECTS,
        "R2_ENDPOINT_URL",
        "S3_ENDPOINT_URL",
        "AWS_ENDPOINT_URL",
        unset="Amazon's own",
        description="The address of the store, for example https://<account>.r2.cloudflarestorage.com.",
    )
    objects_key_id: str | None = setting(
        Section.OBJECTS,
        "R2_ACCESS_KEY_ID",
        "S3_ACCESS_KEY_ID",
        "AWS_ACCESS_KEY_ID",
        unset="none",
        description="The name of the key for the bucket.",
    )
    objects_secret: SecretStr | None = setting(
        Section.OBJECTS,
        "R2_SECRET_ACCESS_KEY",
        "S3_SECRET_ACCESS_KEY",
        "AWS_SECRET_ACCESS_KEY",
        unset="none",
        description="The secret of that key.",
    )
    objects_region: Region = setting(
        Section.OBJECTS,
        "R2_REGION",
        "S3_REGION",
        "AWS_REGION",
        default="auto",
        description="The region of the bucket.",
    )
    objects_prefix: KeyPrefix = setting(
        Section.OBJECTS,
        "R2_KEY_PREFIX",
        "S3_KEY_PREFIX",
        default="",
        unset="empty",
        description="What every name in the bucket begins with.",
    )

    log_level: LogLevel = setting(
        Section.LOG,
        "DULY_LOG_LEVEL",
        default="info",
        description="Lines below this level are not written; `duly up` starts its worker and bot with warning.",
    )
    log_format: LogFormat = setting(
        Section.LOG,
        "DULY_LOG_FORMAT",
        default="auto",
        description="The form of a log line; auto is pretty on a terminal and json elsewhere.",
    )

    @field_validator("host")
    @classmethod
    def must_be_an_address_to_listen_on(cls, host: str) -> str:
        """Whether others may reach it is asked when the API starts: that depends on the keys in the database."""
        try:
            is_address = host == "localhost" or bool(ipaddress.ip_address(host))
        except ValueError:
            is_address = False
        if not is_address:
            raise ValueError(
                "must be an IP address or localhost; 127.0.0.1 serves this machine, 0.0.0.0 all that reach it"
            )
        return host

    @field_validator("database_url", "database_direct_url")
    @classmethod
    def must_be_an_address(cls, url: SecretStr | None) -> SecretStr | None:
        """Refuse what libpq cannot read, before anything starts."""
        if not url:
            return url
        parse_address(url.get_secret_value())
        return SecretStr(plain_address(url.get_secret_value()))

    @field_validator("database_direct_url")
    @classmethod
    def must_have_a_pooler_to_pass(cls, url: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        """A direct address alone would migrate one database and work on another, the embedded one."""
        if url and info.data.get("database_url", url) is None:
            raise ValueError("DATABASE_URL is not set; set it to the same database, or unset DATABASE_DIRECT_URL")
        return url

    @field_validator("lease_heartbeat_seconds")
    @classmethod
    def must_beat_thrice_in_a_lease(cls, beat: float, info: ValidationInfo) -> float:
        """Two beats may be late before another worker takes the row."""
        timeout = info.data.get("lease_timeout_seconds")
        if timeout and info.data.get("enable_lease_heartbeat") and beat >= timeout / 3:
            raise ValueError(
                f"must be less than a third of LEASE_TIMEOUT_SECONDS={timeout:.10g}; set it below {timeout / 3:.10g}, "
                "raise LEASE_TIMEOUT_SECONDS, or set ENABLE_LEASE_HEARTBEAT=false"
            )
        return beat

    @field_validator("posts_lease_seconds")
    @classmethod
    def must_leave_no_post_stuck(cls, lease: float, info: ValidationInfo) -> float:
        """A holder that dies is noticed within lease and sweep, which together stay below what counts as stuck."""
        sweep = info.data.get("sweep_seconds")
        if sweep and lease + sweep >= STUCK_SECONDS:
            raise ValueError(
                f"with DULY_SWEEP_SECONDS={sweep:.10g} a post could be held for {lease + sweep:.10g} s, and one "
                f"that is held for {STUCK_SECONDS} s counts as stuck; make the two together less than that"
            )
        return lease

    @field_validator("telegram_token")
    @classmethod
    def must_be_a_bots_token(cls, token: SecretStr | None) -> SecretStr | None:
        """Something else would only be found out by the first message."""
        if token and not re.fullmatch(r"[0-9]{1,20}:[A-Za-z0-9_-]{30,100}", token.get_secret_value()):
            raise ValueError("must be a bot's token as BotFather tells it: a number, a colon and some 35 characters")
        return token

    @field_validator("telegram_webhook_secret")
    @classmethod
    def must_be_a_secret_that_telegram_takes(cls, secret: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        """An address that anybody may post to needs one."""
        if secret and not re.fullmatch(r"[A-Za-z0-9_-]{1,256}", secret.get_secret_value()):
            raise ValueError("must be 1 to 256 of A-Z, a-z, 0-9, _ and -, which is what Telegram takes")
        if secret is None and info.data.get("telegram_webhook_url"):
            raise ValueError(
                "TELEGRAM_WEBHOOK_URL is set, and anybody could post there; set TELEGRAM_WEBHOOK_SECRET to a long "
                "random word of A-Z, a-z, 0-9, _ and -"
            )
        return secret

    @field_validator("openai_model")
    @classmethod
    def must_be_complete(cls, model: str | None, info: ValidationInfo) -> str | None:
        """Whoever is to be asked must be named, and OpenAI's own server answers nobody without a key."""
        if info.data.get("posts_analyzer") != "openai":
            return model
        if model is None:
            raise ValueError("DULY_POSTS_ANALYZER=openai needs a model; set OPENAI_MODEL, or DULY_POSTS_ANALYZER=rules")
        if not info.data.get("openai_api_key") and not info.data.get("openai_base_url"):
            raise ValueError("DULY_POSTS_ANALYZER=openai needs OPENAI_API_KEY, or OPENAI_BASE_URL of another server")
        return model

    @field_validator("openai_seconds")
    @classmethod
    def must_end_before_the_reading_does(cls, seconds: float, info: ValidationInfo) -> float:
        """All tries together end before the worker's own limits do, so that their failure has its own name."""
        max_length = seconds * (OPENAI_RETRIES + 1) + OPENAI_WAIT_SECONDS
        for name in ("posts_analyzer_seconds", "posts_lease_seconds"):
            limit = info.data.get(name)
            if info.data.get("posts_analyzer") == "openai" and limit and max_length >= limit:
                raise ValueError(
                    f"{OPENAI_RETRIES + 1} tries of {seconds:.10g} s and {OPENAI_WAIT_SECONDS:.10g} s between them "
                    f"take {max_length:.10g} s, which must be less than {variables_of(name)[0]}={limit:.10g}; set it "
                    f"below {(limit - OPENAI_WAIT_SECONDS) / (OPENAI_RETRIES + 1):.10g}, or raise the other"
                )
        return seconds

    @field_validator("alert_recipient")
    @classmethod
    def must_name_whom_to_tell(cls, recipient: str | None, info: ValidationInfo) -> str | None:
        """The console is read by whoever is there; other channels go to somebody."""
        channel = info.data.get("alert_channel", "console")
        if recipient is None and channel != "console":
            raise ValueError(f"DULY_ALERT_CHANNEL={channel} needs somebody to tell; set it to the uid of a person")
        return recipient

    @field_validator("objects_secret")
    @classmethod
    def must_be_a_whole_key(cls, secret: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        """A bucket is opened by a key, which is a name and a secret."""
        given = {"bucket": info.data.get("objects_bucket"), "key_id": info.data.get("objects_key_id"), "secret": secret}
        if given["bucket"] and not (given["key_id"] and secret):
            raise ValueError("R2_BUCKET is set, and needs both R2_ACCESS_KEY_ID and R2_SECRET_ACCESS_KEY; set them")
        return secret

    @field_validator(*STATES, *ROLES)
    @classmethod
    def must_differ_from_its_likes(cls, value: str, info: ValidationInfo) -> str:
        """Two states, or two roles, of one name could not be told apart."""
        likes = STATES if info.field_name in STATES else ROLES
        for like in likes:
            if info.data.get(like) == value:
                raise ValueError(f"{variables_of(like)[0]}={value!r} has the same name; give each one of its own")
        return value


def plain_address(address: str) -> str:
    """An address without the driver that SQLAlchemy puts into it, as in postgresql+psycopg://."""
    return re.sub(r"\A(postgres(?:ql)?)\+\w+://", r"\1://", address)


def parse_address(address: str) -> dict[str, str]:
    """The parts of a PostgreSQL address; ValueError, which never repeats the address, when it is not one.

    A password with a bare @ or / in it moves the borders of the parts: such an address is refused as well, for
    otherwise a piece of the password would be taken, and shown, for the host.
    """
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(plain_address(address)).items()}
    except (ProgrammingError, UnicodeError):
        raise ValueError("not a PostgreSQL address; write postgresql://user:password@host:5432/database") from None
    borders_moved = "@" in parts.get("host", "") + parts.get("dbname", "")
    if borders_moved or not re.fullmatch(r"[\d,]*", parts.get("port", "")):
        raise ValueError("not a PostgreSQL address; write @ and / inside the password as %40 and %2F")
    return parts


def is_for_tests(database: str) -> bool:
    """Does a database say, as a word of its name, that it is for tests?"""
    return "test" in database.lower().replace("-", "_").split("_")


def load_settings() -> Settings:
    """Read the environment, or refuse with every bad variable named, each in a line of its own."""
    try:
        return Settings()
    except ValidationError as error:
        raise Misconfigured("\n".join(refusal_of(problem) for problem in error.errors())) from None


def unknown_variables() -> list[str]:
    """One sentence for each variable of the environment that looks like a setting of ours and is none."""
    known = [variable for name in Settings.model_fields for variable in variables_of(name)]
    unknown = sorted(
        name for name in os.environ if name.startswith(PREFIX) and name not in known and not INTERNAL.fullmatch(name)
    )
    return [f"{name} is no setting of duly and is ignored{nearest_to(name, known)}" for name in unknown]


def nearest_to(name: str, known: Sequence[str]) -> str:
    """The question whether another variable was meant, if one is spelled nearly like this."""
    nearest = get_close_matches(name, known, n=1, cutoff=0.8)
    return f"; did you mean {nearest[0]}?" if nearest else "; see docs/configuration.md"


def refusal_of(problem: ErrorDetails) -> str:
    """One sentence: the variable, what it was set to, and what would do."""
    name = field_at(str(problem["loc"][0]))
    return f"{variable_read_for(name)}={shown(name, problem['input'])}: {reason(name, problem)}"


def field_at(place: str) -> str:
    """The field behind the place pydantic names: a variable, or the field itself when its default is at fault."""
    return next(name for name in Settings.model_fields if place == name or place in variables_of(name))


def variables_of(name: str) -> tuple[str, ...]:
    """The environment variables of a field; the first that is set wins."""
    alias = Settings.model_fields[name].validation_alias
    assert isinstance(alias, AliasChoices)
    return tuple(str(choice) for choice in alias.choices)


def accepted_by(name: str) -> str:
    """What a field may be, in words; nothing when it takes any text."""
    return next((mark.words for mark in Settings.model_fields[name].metadata if isinstance(mark, Accepts)), "")


def variable_read_for(name: str) -> str:
    """The one variable that a field was read from."""
    variables = variables_of(name)
    return next((variable for variable in variables if os.environ.get(variable)), variables[0])


def shown(name: str, value: object) -> str:
    """The offending value, not too much of it; addresses may hold a password and are not shown."""
    if "SecretStr" in str(Settings.model_fields[name].annotation):
        return "***"
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


def reason(name: str, problem: ErrorDetails) -> str:
    """Our own sentence where a validator has one, else what the field accepts."""
    if problem["type"] == "value_error":
        return problem["msg"].removeprefix("Value error, ")
    accepted = accepted_by(name)
    return f"must be {accepted}" if accepted else problem["msg"]
