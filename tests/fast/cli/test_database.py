"""Which database a command works on, and what it says where there is none, or not this one."""

import shlex
import socket
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from duly.configuration.engine import DATABASE_VARIABLES
from duly.errors import NoDatabase, Unavailable
from duly.launcher import ROOT
from tests.fast.cli.test_help import COMMANDS
from tests.support.command_line import CommandLine

ID = "019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77"
FIXTURE = ROOT / "fixtures" / "sample_schedule.json"
PICTURE = ROOT / "fixtures" / "demo" / "evening.jpg"
MAY_CREATE = {"up", "migrate"}
NEED_NO_DATABASE = {"ingest read", "schedule next", "test", "chaos", "check", "lock"}
ARGUMENTS = {  # what a command needs to get as far as the database
    "jobs enqueue": "work",
    "jobs pause": "--queue q",
    "jobs resume": "--queue q",
    **dict.fromkeys([f"jobs {verb}" for verb in ("show", "timeline", "explain", "cancel", "erase", "redrive")], ID),
    "posts create": f"{PICTURE} --user anna",
    "posts edit": f"{ID} --user anna --caption words",
    "posts import-legacy": str(FIXTURE),
    **dict.fromkeys([f"posts {verb}" for verb in ("show", "timeline", "explain")], ID),
    "ingest capture": f"--fixture {FIXTURE} --user 42",
    "ingest diff": "2026-02-10 1 2 --user 42",
    "ingest list": "--user 42",
    **dict.fromkeys([f"ingest {verb}" for verb in ("show", "timeline", "explain")], ID),
    **dict.fromkeys(
        [f"ingest {verb}" for verb in ("day", "versions", "events", "notifications", "replay")],
        "2026-02-10 --user 42",
    ),
    "schedule add": "rent --user anna --rule 'cron: 0 9 1 * *'",
    "schedule edit": "7 --name rent",
    "schedule answer": "7 complete",
    **dict.fromkeys(
        [
            f"schedule {verb}"
            for verb in (
                "show",
                "pause",
                "resume",
                "archive",
                "fire",
                "missed",
                "reverse-expense",
                "timeline",
                "explain",
            )
        ],
        "7",
    ),
    **dict.fromkeys([f"notifications {verb}" for verb in ("show", "resend")], ID),
    "notifications resolve": f"{ID} --sent",
    "expenses export": "--format csv",
    "partitions archive": "2026-01 --out runs.jsonl",
    "partitions drop": "2026-01 --yes",
    "orgs create": "acme",
    "orgs revoke": "acme",
    "people create": "anna",
    "people set": "anna --zone UTC",
    "people link": "anna 1",
    "people link-telegram": "anna",
    "people unlink-telegram": "anna",
    "people revoke": "anna",
    "keys create": "ci --org acme --scope admin",
    "keys revoke": "duly_x",
    "serve": "--port 0",
    "worker": "--once",
}
ON_A_DATABASE = [
    name for name in COMMANDS if name and name not in MAY_CREATE | NEED_NO_DATABASE and not name.startswith("bench")
]
TOKEN = "123456:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"  # noqa: S105 (made up)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in which there is nothing, and where we are."""
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    monkeypatch.chdir(directory)
    for variable in DATABASE_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", TOKEN)
    return directory


def test_without_a_database_every_command_reports_it_and_creates_nothing(empty: Path, tmp_path: Path) -> None:
    cli = CommandLine("", tmp_path)
    cli.environment = {}
    wrong: dict[str, str] = {}
    for name in ON_A_DATABASE:
        ended = cli.run(*shlex.split(f"{name} {ARGUMENTS.get(name, '')}"))
        error = ended.exception
        is_reported = isinstance(error, NoDatabase) and "run `duly up`, or set DATABASE_URL" in str(error)
        if not is_reported or list(empty.iterdir()):
            wrong[name] = f"{error!r} {ended.output} {sorted(each.name for each in empty.rglob('*'))}"
    assert not wrong, "\n".join(f"{name}: {printed_text}" for name, printed_text in wrong.items())


def test_a_wrong_database_login_or_port_fails_at_once_in_one_line(
    empty: Path, server: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening_socket:
        port = listening_socket.getsockname()[1]
    addresses = {
        'database "duly_test_nowhere" does not exist': make_conninfo(server, dbname="duly_test_nowhere"),
        'role "nobody_here" does not exist': make_conninfo(server, user="nobody_here"),
        "refused": f"postgresql://127.0.0.1:{port}/name",
    }
    wrong: dict[str, str] = {}
    for reason, address in addresses.items():
        cli = CommandLine(address, tmp_path)
        for arguments in ("jobs list", "worker --once", "serve --port 0", "posts release", "verify", "migrate", "bot"):
            ended = cli.run(*shlex.split(arguments))
            printed_text = str(ended.exception)  # the server's own reason: no pool has waited in vain
            is_right = isinstance(ended.exception, Unavailable) and reason in printed_text and "\n" not in printed_text
            if not is_right or ended.output or caplog.records:
                wrong[f"{arguments}: {reason}"] = f"{ended.exception!r} {ended.output} {caplog.records}"
                caplog.clear()
    assert not wrong, "\n".join(f"{name}: {printed_text}" for name, printed_text in wrong.items())


def test_connection_error_names_the_variable_that_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli = CommandLine("", tmp_path)
    cli.environment = {"POSTGRES_DSN": "postgresql://127.0.0.1:1/name"}
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert str(cli.error("jobs", "list")).startswith("POSTGRES_DSN: cannot connect to 127.0.0.1:1/name: ")
