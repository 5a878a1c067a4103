"""Every environment variable duly reads, read once into one frozen object.

A bad value is refused at the start, with the variable's name, the value and the fix.
"""

import ipaddress
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import AliasChoices, AliasPath, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from duly.errors import Misconfigured

__all__ = ["DATABASE_VARIABLES", "DEFAULT_PORT", "Settings", "load_settings", "parse_address"]

DATABASE_VARIABLES = ("DATABASE_URL", "POSTGRES_DSN", "TEST_DATABASE_URL")
DEFAULT_PORT = 8420


class Settings(BaseSettings):
    """What a process was told by its environment."""

    model_config = SettingsConfigDict(frozen=True, env_ignore_empty=True, extra="ignore")

    database_url: Annotated[
        SecretStr | None,
        Field(
            validation_alias=AliasChoices(*DATABASE_VARIABLES),
            description="The PostgreSQL to use; the first of these that is set wins. Unset: an embedded server.",
        ),
    ] = None
    home: Annotated[
        Path, Field(validation_alias="DULY_HOME", description="Where the embedded server keeps data, socket and logs.")
    ] = Path(".duly")
    pgbin: Annotated[
        Path | None,
        Field(validation_alias="DULY_PGBIN", description="The bin directory of the PostgreSQL to embed."),
    ] = None
    pguser: Annotated[
        str | None,
        Field(validation_alias="DULY_PGUSER", description="As root: the account the embedded server runs under."),
    ] = None
    host: Annotated[
        str, Field(validation_alias="DULY_HOST", description="The loopback address the API listens on.")
    ] = "127.0.0.1"
    port: Annotated[
        int | None,
        Field(
            validation_alias="DULY_PORT",
            ge=0,
            le=65535,
            description=f"The port of the API; 0 takes any free one. Unset: {DEFAULT_PORT}, or a free one if taken.",
        ),
    ] = None

    @field_validator("host")
    @classmethod
    def must_be_loopback(cls, host: str) -> str:
        """Without API keys nobody but this machine may ask."""
        try:
            loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            loopback = False
        if not loopback:
            raise ValueError("the API has no keys yet and serves this machine only; use 127.0.0.1, ::1 or localhost")
        return host

    @field_validator("database_url")
    @classmethod
    def must_be_an_address(cls, url: SecretStr | None) -> SecretStr | None:
        """Refuse what libpq cannot read, before anything starts."""
        if url:
            parse_address(url.get_secret_value())
        return url


def parse_address(address: str) -> dict[str, str]:
    """The parts of a PostgreSQL address; ValueError, which never repeats the address, when it is not one.

    A password with a bare @ or / in it moves the borders of the parts: such an address is refused as well, for
    otherwise a piece of the password would be taken, and shown, for the host.
    """
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(address).items()}
    except ProgrammingError:
        raise ValueError("not a PostgreSQL address; write postgresql://user:password@host:5432/database") from None
    borders_moved = "@" in parts.get("host", "") + parts.get("dbname", "")
    if borders_moved or not re.fullmatch(r"[\d,]*", parts.get("port", "")):
        raise ValueError("not a PostgreSQL address; write @ and / inside the password as %40 and %2F")
    return parts


def load_settings() -> Settings:
    """Read the environment, or refuse with every bad variable named."""
    try:
        return Settings()
    except ValidationError as error:
        problems = [
            f"{variables_of(problem['loc'])}={shown(problem['loc'], problem['input'])}: {reason(problem['msg'])}"
            for problem in error.errors()
        ]
        raise Misconfigured("; ".join(problems)) from None


def variables_of(location: Iterable[int | str]) -> str:
    """The environment variable behind the place pydantic names."""
    name = str(next(iter(location)))
    field = Settings.model_fields.get(name)
    alias = field.validation_alias if field else None
    match alias:
        case AliasChoices():
            return "/".join(str(choice) for choice in alias.choices)
        case AliasPath() | None:
            return name
        case str():
            return alias


def shown(location: Iterable[int | str], value: object) -> str:
    """The offending value; addresses may hold a password and are not shown."""
    return "***" if "DATABASE_URL" in variables_of(location) or "DSN" in variables_of(location) else repr(value)


def reason(message: str) -> str:
    """Pydantic's sentence without its prefix."""
    return message.removeprefix("Value error, ")
