"""The engine's settings, part by part: database, roles, HTTP, workers, outbox, Telegram, storage, logs."""

import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, field_validator

from duly.applications import ALL, NONE, check_names, default_names
from duly.configuration import (
    Accepts,
    Count,
    Part,
    Port,
    Seconds,
    SecondsOrZero,
    Section,
    WebAddress,
    check_distinct,
    setting,
)
from duly.configuration.delivery import OutboxSettings, StorageSettings, TelegramSettings

DATABASE_VARIABLES = ("DATABASE_URL", "POSTGRES_DSN", "TEST_DATABASE_URL")
DEFAULT_PORT = 8420
OUR_SCHEMAS = ("duly", "ledger", "posts", "scheduler", "expense", "user")
MAX_WORKER_ID_LENGTH = 200
ROLE_SETTINGS = ("owner_role", "worker_role", "api_role", "readonly_role")


def plain_address(address: str) -> str:
    """Remove the driver that SQLAlchemy puts into an address, as in postgresql+psycopg://."""
    return re.sub(r"\A(postgres(?:ql)?)\+\w+://", r"\1://", address)


def parse_address(address: str) -> dict[str, str]:
    """Parse a PostgreSQL address; raises ValueError, which never repeats the address, when it is not one.

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


def is_worker_id(name: str) -> bool:
    """Return whether a worker may have this name: printable on one line; every claim checks it again."""
    return 0 < len(name) <= MAX_WORKER_ID_LENGTH and name.isprintable() and not name.isspace()


def checked_worker_name(name: str) -> str:
    """Return a worker's name from the environment; a slash is refused because the claim's token follows one."""
    if "/" in name or not is_worker_id(name):
        raise ValueError(f"must be {WORKER_NAME}")
    return name


def checked_host(host: str) -> str:
    """Return an address to listen on; whether it may be public depends on the API keys in the database."""
    try:
        if host != "localhost":
            ipaddress.ip_address(host)
    except ValueError:
        raise ValueError(f"must be {HOST}; 127.0.0.1 serves this machine, 0.0.0.0 all that reach it") from None
    return host


HOST = "an IP address or localhost"
WORKER_NAME = f"1 to {MAX_WORKER_ID_LENGTH} printable characters without /, and not only blanks"
Address = Annotated[SecretStr | None, Accepts("a PostgreSQL address")]
RoleName = Annotated[
    str,
    Field(pattern=r"\A(?!pg_)(?!(?:public|none)\Z)[a-z_][a-z0-9_]{0,62}\Z"),  # PostgreSQL reserves these two
    Accepts("1 to 63 of a-z, 0-9 and _, not beginning with a digit or pg_, and neither public nor none"),
]
WorkerName = Annotated[str, AfterValidator(checked_worker_name), Accepts(WORKER_NAME)]
Host = Annotated[str, AfterValidator(checked_host), Accepts(HOST)]
Applications = Annotated[
    str,
    AfterValidator(check_names),
    Accepts(f"{NONE}, or some of {ALL.replace(',', ', ')} with commas between"),
]
PoolSize = Annotated[int, Field(ge=1, le=200)]


class DatabaseSettings(Part):
    """The database, and the embedded server that is used without one."""

    database_url: Address = setting(
        Section.DATABASE,
        *DATABASE_VARIABLES,
        unset="an embedded server",
        description="The PostgreSQL to use; the first of these that is set wins. Of several hosts, with commas "
        "between, the one that accepts writes is used, unless the address has a `target_session_attrs` of its own. "
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
        description="Maximum connections of a process; a worker needs 5.",
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

    @field_validator("database_url", "database_direct_url")
    @classmethod
    def check_address(cls, url: SecretStr | None) -> SecretStr | None:
        """Refuse an address that libpq cannot parse."""
        if not url:
            return url
        parse_address(url.get_secret_value())
        return SecretStr(plain_address(url.get_secret_value()))

    @field_validator("database_direct_url")
    @classmethod
    def check_direct_url_has_database_url(cls, url: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        """Refuse a direct address alone: it would migrate one database and work on another, the embedded one."""
        if url and info.data.get("database_url", url) is None:
            raise ValueError("DATABASE_URL is not set; set it to the same database, or unset DATABASE_DIRECT_URL")
        return url


class RoleSettings(Part):
    """The roles that migrations create and grant to."""

    owner_role: RoleName = setting(
        Section.ROLE, "DULY_OWNER_ROLE", default="duly_owner", description="Owns schemas, tables and functions."
    )
    worker_role: RoleName = setting(
        Section.ROLE, "DULY_WORKER_ROLE", default="duly_worker", description="Claims and settles work."
    )
    api_role: RoleName = setting(
        Section.ROLE, "DULY_API_ROLE", default="duly_api", description="Accepts and shows work."
    )
    readonly_role: RoleName = setting(
        Section.ROLE, "DULY_READONLY_ROLE", default="duly_readonly", description="Reads only; all four must differ."
    )

    @field_validator(*ROLE_SETTINGS)
    @classmethod
    def check_role_names_distinct(cls, value: str, info: ValidationInfo) -> str:
        """Refuse two roles of the same name."""
        return check_distinct(cls, ROLE_SETTINGS, value, info)


class ApplicationSettings(Part):
    """The applications on the engine."""

    apps: Applications = setting(
        Section.APPLICATIONS,
        "DULY_APPS",
        default=default_names,
        unset="all, or none without the extra `apps`",
        description="The applications that are switched on; `none` leaves jobs alone. One that is off has no HTTP "
        "routes, commands, work, checks or invariants here; its tables and settings stay.",
    )


class HttpSettings(Part):
    """The HTTP server."""

    host: Host = setting(
        Section.API,
        "DULY_HOST",
        default="127.0.0.1",
        description="The address the API listens on; one that is not loopback requires an API key in the database.",
    )
    port: Port = setting(
        Section.API,
        "DULY_PORT",
        unset=f"{DEFAULT_PORT}, or a free one if taken",
        description="The port of the API; 0 chooses a free one.",
    )
    public_url: WebAddress | None = setting(
        Section.API,
        "DULY_PUBLIC_URL",
        unset="messages have no links",
        description="Where people reach the API from outside, for example https://duly.example.com: messages without "
        "buttons then carry links that answer.",
    )


class WorkerSettings(Part):
    """Every worker."""

    worker_id: WorkerName = setting(
        Section.WORKER,
        "WORKER_ID",
        default=lambda: f"worker-{os.getpid()}",
        unset="`worker-<pid>`; for `duly worker` `<hostname>-<pid>`",
        description="The name a worker claims under; every claim appends `/` and a fresh token.",
    )
    app: str | None = setting(
        Section.WORKER,
        "DULY_APP",
        default=None,
        unset="jobs wait for a worker that has handlers",
        description="The `duly.App` whose handlers a worker runs, as module:variable, from the working directory.",
    )
    worker_slots: Count = setting(
        Section.WORKER,
        "DULY_WORKER_SLOTS",
        default=50,
        description="Rows of one work type that a worker runs at once; at most 8 for sessions with photographs.",
    )
    worker_children: Count = setting(
        Section.WORKER,
        "DULY_WORKER_CHILDREN",
        default=lambda: os.cpu_count() or 1,
        unset="as many as there are processors",
        description="Child processes for isolated handlers.",
    )
    poll_seconds: Seconds = setting(
        Section.WORKER, "DULY_POLL_SECONDS", default=1, description="Poll interval of an idle worker."
    )
    sweep_seconds: Seconds = setting(
        Section.WORKER,
        "DULY_SWEEP_SECONDS",
        default=5,
        description="How often a worker sweeps rows whose lease has expired.",
    )
    stop_seconds: SecondsOrZero = setting(
        Section.WORKER,
        "DULY_STOP_SECONDS",
        default=20,
        description="Grace period at shutdown before running work is released.",
    )
    worker_port: Port = setting(
        Section.WORKER,
        "DULY_WORKER_PORT",
        unset="no port is opened",
        description="A port at DULY_HOST for a worker's /healthz, /readyz and /metrics, which need no key; "
        "0 chooses a free one.",
    )


class LogSettings(Part):
    """Log lines."""

    log_level: Literal["debug", "info", "warning", "error"] = setting(
        Section.LOG,
        "DULY_LOG_LEVEL",
        default="info",
        description="Lines below this level are not written; `duly up` starts its worker and bot with warning.",
    )
    log_format: Literal["auto", "json", "pretty"] = setting(
        Section.LOG,
        "DULY_LOG_FORMAT",
        default="auto",
        description="The form of a log line; auto is pretty on a terminal and json elsewhere.",
    )


class EngineSettings(
    LogSettings,
    StorageSettings,
    TelegramSettings,
    OutboxSettings,
    WorkerSettings,
    HttpSettings,
    RoleSettings,
    ApplicationSettings,
    DatabaseSettings,
):
    """Every setting of the engine; pydantic orders the fields from the last base to the first."""
