"""How settings are declared: fields that are read from environment variables, and what each of them accepts.

Every part of the settings is a pydantic model whose fields are made by `setting`. What a field accepts is derived from
its type and bounds; only a pattern or a validator brings a description of its own (`Accepts`).
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import AliasChoices, Field, ValidationInfo
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

WEEK_SECONDS = 604_800
UNITS = {WEEK_SECONDS: " (one week)"}


class Section(StrEnum):
    """The headings of docs/configuration.md, in their order."""

    DATABASE = "The database"
    EMBEDDED = "The embedded server"
    APPLICATIONS = "The applications"
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


class Part(BaseSettings):
    """A part of the settings: read from the environment, frozen, and never shown with its values."""

    model_config = SettingsConfigDict(
        frozen=True,
        env_ignore_empty=True,
        extra="ignore",
        case_sensitive=True,
        regex_engine="python-re",  # the other one cannot say "not beginning with"
        hide_input_in_errors=True,  # it may be a password
    )


@dataclass(frozen=True)
class Accepts:
    """What a setting accepts, as text that follows "must be"."""

    text: str


def setting(section: Section, *variables: str, default: object = None, unset: str = "", description: str) -> Any:
    """Declare a field that is read from the first of these variables that is set; `unset` describes the default."""
    return Field(
        default_factory=default if callable(default) else lambda: default,
        validation_alias=AliasChoices(*variables),
        description=description,
        json_schema_extra={"section": section, "unset": unset},
    )


def variables(field: FieldInfo) -> tuple[str, ...]:
    """Return the environment variables of a field; the first that is set wins."""
    alias = field.validation_alias
    assert isinstance(alias, AliasChoices)
    return tuple(str(choice) for choice in alias.choices)


def set_variable(field: FieldInfo) -> str:
    """Return the variable that a field was read from, or its first where none is set."""
    names = variables(field)
    return next((name for name in names if os.environ.get(name)), names[0])


def accepted_values(field: FieldInfo) -> str:
    """Describe what a field accepts; empty when it takes any text."""
    for mark in field.metadata:
        if isinstance(mark, Accepts):
            return mark.text
    types = [each for each in get_args(field.annotation) if each is not NoneType]
    value_type = types[0] if NoneType in get_args(field.annotation) else field.annotation
    if get_origin(value_type) is Literal:
        *others, last = get_args(value_type)
        return f"{', '.join(others)} or {last}"
    if value_type is bool:
        return "1, true, yes or on, or else 0, false, no or off"
    if value_type in (int, float):
        return accepted_numbers(field, "an integer" if value_type is int else "a number")
    return ""


def accepted_numbers(field: FieldInfo, noun: str) -> str:
    """Describe a number by its bounds."""
    least = next((mark.ge for mark in field.metadata if isinstance(mark, Ge)), None)
    above = next((mark.gt for mark in field.metadata if isinstance(mark, Gt)), None)
    greatest: Any = next((mark.le for mark in field.metadata if isinstance(mark, Le)), None)
    if greatest is None:
        return noun
    bound = f"{greatest}{UNITS.get(greatest, '')}"
    return f"{noun} above {above} and at most {bound}" if above is not None else f"{noun} from {least} to {bound}"


def check_distinct(part: type[Part], names: Sequence[str], value: str, info: ValidationInfo) -> str:
    """Refuse a value that an earlier one of these settings has already."""
    for name in names:
        if info.data.get(name) == value:
            variable = variables(part.model_fields[name])[0]
            raise ValueError(f"{variable}={value!r} has the same name; give each one of its own")
    return value


Seconds = Annotated[float, Field(gt=0, le=WEEK_SECONDS, allow_inf_nan=False)]
SecondsOrZero = Annotated[float, Field(ge=0, le=WEEK_SECONDS, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=10_000)]
Port = Annotated[int | None, Field(ge=0, le=65535)]
WebAddress = Annotated[
    str,
    Field(pattern=r"\Ahttps?://[A-Za-z0-9.:\[\]-]+(?:/[A-Za-z0-9._~/-]*)?\Z", max_length=500),
    Accepts("an address such as https://example.com, without a query or a password"),
]
