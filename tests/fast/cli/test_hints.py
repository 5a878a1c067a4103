"""What commands advise: in the words the user can type here, and only about what is wrong."""

import sys
from pathlib import Path

import pytest

import duly.cli
from duly.cli import existing_database
from duly.cli.app_name import load_app
from duly.cli.existing_database import warn_of_unknown_variables
from duly.errors import InvalidArgument, NotFound
from duly.formatting import COMMAND_NAMES, COMMAND_VARIABLE, rewrite_commands
from duly.outbox.channels.console import answer_command
from tests.fast.cli.test_help import COMMANDS
from tests.support.command_line import CommandLine


@pytest.fixture
def cli(database: str, tmp_path: Path) -> CommandLine:
    return CommandLine(database, tmp_path)


# The name of the command ----------------------------------------------------------------------------------------------


def test_hint_names_the_command_as_the_user_invoked_it(monkeypatch: pytest.MonkeyPatch) -> None:
    hint = "see: duly jobs list, /home/duly jobs, or run `duly up`; duly is a word"
    assert rewrite_commands(hint) == hint
    monkeypatch.setenv(COMMAND_VARIABLE, "./duly")
    assert rewrite_commands(hint) == "see: ./duly jobs list, /home/duly jobs, or run `./duly up`; duly is a word"
    assert answer_command(7, {"action": "complete", "key": "k"}) == "./duly schedule answer 7 complete --key k"
    monkeypatch.setenv(COMMAND_VARIABLE, "/my home/duly")
    assert rewrite_commands("run duly migrate") == "run '/my home/duly' migrate"


def test_every_command_is_known_to_hints() -> None:
    assert sorted(COMMAND_NAMES) == sorted({command.split()[0] for command in COMMANDS if command})


def test_errors_and_explanations_name_the_command_as_invoked(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(COMMAND_VARIABLE, "./duly")
    key = cli.json("jobs", "enqueue", "work")["id"]
    assert "start one: ./duly worker." in cli.output("jobs", "explain", key)
    duly.cli.print_error(NotFound("there is no org 'x'; make it with: duly orgs create 'x'"))
    assert capsys.readouterr().err == "duly: there is no org 'x'; make it with: ./duly orgs create 'x'\n"
    waited = cli.run("jobs", "show", key, "--watch", "--watch-for", "10ms")
    assert f"why: ./duly jobs explain {key}" in waited.stderr


def test_command_on_the_path_is_shown_without_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "duly"
    program.touch(mode=0o755)
    assert duly.cli.invocation_name(str(program)) == str(program)
    assert duly.cli.invocation_name("/site-packages/duly/__main__.py") == "duly"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert duly.cli.invocation_name(str(program)) == "duly"


# Variables ------------------------------------------------------------------------------------------------------------


def test_misspelt_variable_is_reported_with_the_nearest_known_one(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_WOKER_SLOTS", "7")
    monkeypatch.setenv("DULY_ENTIRELY_ELSE", "7")
    monkeypatch.setattr(existing_database, "WARNED", set[str]())
    ended = cli.run("jobs", "list")
    assert ended.exit_code == 0
    assert ended.stderr.splitlines() == [
        "duly: DULY_ENTIRELY_ELSE is not a setting of duly and is ignored; see docs/configuration.md",
        "duly: DULY_WOKER_SLOTS is not a setting of duly and is ignored; did you mean DULY_WORKER_SLOTS?",
    ]
    assert cli.run("jobs", "list").stderr == ""  # once in a process, however often it opens its database
    monkeypatch.setattr(existing_database, "WARNED", set[str]())
    monkeypatch.setenv("DULY_LIFELINE", "3")  # a component of `duly up`, which has printed it
    warn_of_unknown_variables(pytest.fail)


def test_a_worker_logs_a_misspelt_variable(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_WOKER_SLOTS", "7")
    monkeypatch.setattr(existing_database, "WARNED", set[str]())
    ended = cli.run("worker", "--once", "--only", "posts")
    assert ended.exit_code == 0
    assert "did you mean DULY_WORKER_SLOTS?" in ended.output
    assert '"level":"warning"' in ended.output


def test_variables_that_duly_itself_sets_cause_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DULY_COMMAND", "DULY_PYTHON", "DULY_UPDATE_GOLDEN", "DULY_TEST_RUN_HOME", "DULY_CRASHPOINT"):
        monkeypatch.setenv(name, "something")
    warn_of_unknown_variables(pytest.fail)


# --app ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "last", "frames"),
    [
        ("import stripe_that_is_not_there", "ModuleNotFoundError: No module named 'stripe_that_is_not_there'", 1),
        ("def f():\n    None.x\nf()", "AttributeError: 'NoneType' object has no attribute 'x'", 2),
        ("app = (", "SyntaxError: '(' was never closed", 0),
        ("from broken_app.deeper import x", "ValueError: deep", 2),
    ],
)
def test_an_import_error_in_the_app_shows_the_users_own_frames_and_one_line(
    code: str,
    last: str,
    frames: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    package = tmp_path / "broken_app"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "jobs.py").write_text(code)
    (package / "deeper.py").write_text("raise ValueError('deep')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    try:
        with pytest.raises(InvalidArgument) as refused:
            load_app("broken_app.jobs:app")
    finally:
        for name in [name for name in sys.modules if name.startswith("broken_app")]:
            del sys.modules[name]
    duly.cli.print_error(refused.value)
    *traced, line = capsys.readouterr().err.splitlines()
    assert line == f"duly: --app broken_app.jobs:app: the module 'broken_app.jobs' cannot be imported: {last}"
    files = [line.split('"')[1] for line in traced if line.startswith("  File ")]
    assert all(file.startswith(str(package)) for file in files), files
    assert len(files) == max(frames, 1)
    assert traced[-1] == last


# The first key --------------------------------------------------------------------------------------------------------


def test_first_api_key_warns_that_every_request_now_needs_a_key(cli: CommandLine) -> None:
    cli.output("orgs", "create", "acme")
    arguments = ("keys", "create", "ci", "--org", "acme", "--scope", "admin")
    first = cli.output(*arguments)
    assert "from now on every request to the API needs one" in first
    assert "from now on" not in cli.output(*arguments)
    assert cli.json(*arguments)["is_first"] is False
