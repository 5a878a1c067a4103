"""Every environment variable duly reads, read once into one frozen object.

A bad value is refused at the start, with the variable's name, the value and the fix; all bad values are named at once.
Rules between two variables are checked by the later field, which can see the earlier ones: the order of fields matters.
`docs/configuration.md` is generated from these classes: `python -m tools.generate`.
"""

import os
import re
from collections.abc import Sequence
from difflib import get_close_matches

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from duly.apps.ingest.settings import IngestSettings
from duly.apps.posts.settings import PostsSettings
from duly.apps.scheduler.settings import SchedulerSettings
from duly.configuration import accepted_values, set_variable, variables
from duly.errors import Misconfigured

MAX_SHOWN_CHARACTERS = 100
PREFIX = "DULY_"
INTERNAL = re.compile(r"DULY_(COMMAND|CRASHPOINT|LIFELINE|PYTHON|UPDATE_GOLDEN|TEST_\w+)")  # read, but no settings


class Settings(PostsSettings, SchedulerSettings, IngestSettings):
    """The settings of a process: the engine's and those of every application."""


def load_settings() -> Settings:
    """Read the environment; raises Misconfigured with a line for every bad variable."""
    try:
        return Settings()
    except ValidationError as error:
        raise Misconfigured("\n".join(describe_problem(problem) for problem in error.errors())) from None


def is_for_tests(database: str) -> bool:
    """Return whether the name of a database contains the word test."""
    return "test" in database.lower().replace("-", "_").split("_")


def unknown_variables() -> list[str]:
    """Return one sentence for each variable that is named like a setting of duly but is none."""
    known = [variable for name in Settings.model_fields for variable in variable_names(name)]
    unknown = sorted(
        name for name in os.environ if name.startswith(PREFIX) and name not in known and not INTERNAL.fullmatch(name)
    )
    return [f"{name} is not a setting of duly and is ignored{suggestion(name, known)}" for name in unknown]


def suggestion(name: str, known: Sequence[str]) -> str:
    """Suggest the variable that is spelled nearly like this, if there is one."""
    nearest = get_close_matches(name, known, n=1, cutoff=0.8)
    return f"; did you mean {nearest[0]}?" if nearest else "; see docs/configuration.md"


def variable_names(name: str) -> tuple[str, ...]:
    """Return the environment variables of a setting; the first that is set wins."""
    return variables(Settings.model_fields[name])


def describe_accepted(name: str) -> str:
    """Describe what a setting accepts; empty when it takes any text."""
    return accepted_values(Settings.model_fields[name])


def variable_read_for(name: str) -> str:
    """Return the variable that a setting was read from."""
    return set_variable(Settings.model_fields[name])


def describe_problem(problem: ErrorDetails) -> str:
    """Describe a bad value in one sentence: the variable, its value, and what is accepted."""
    location = str(problem["loc"][0])  # a variable, or the field itself when its default is at fault
    name = next(name for name in Settings.model_fields if location == name or location in variable_names(name))
    return f"{variable_read_for(name)}={masked_value(name, problem['input'])}: {reason(name, problem)}"


def masked_value(name: str, value: object) -> str:
    """Format a bad value, shortened; secrets, and addresses that may hold a password, are masked."""
    if "SecretStr" in str(Settings.model_fields[name].annotation):
        return "***"
    text = repr(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."


def reason(name: str, problem: ErrorDetails) -> str:
    """Return the sentence of our own validator, or else what the field accepts."""
    if problem["type"] == "value_error":
        return problem["msg"].removeprefix("Value error, ")
    accepted = describe_accepted(name)
    return f"must be {accepted}" if accepted else problem["msg"]
