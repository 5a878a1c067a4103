"""`duly schedule`, `notifications`, `expenses` and a user's quiet hours and webhook."""

import csv
import io
import json
import os
from pathlib import Path
from uuid import uuid4

from beancount import loader

from duly.errors import AlreadyAnswered, KeyReused, NotFound
from tests.fast.cli.test_schedule import ScheduleCommandLine, admin, cli, database

__all__ = ["admin", "cli", "database"]


# Runs and answers -----------------------------------------------------------------------------------------------------


def test_schedule_commands_answer_a_run_once_book_it_and_reverse_its_expense(cli: ScheduleCommandLine) -> None:
    run = cli.sent_run("--amount", "9.99")
    receipt = cli.json("schedule", "answer", run, "complete", "--key", "tap", "--note", "with a tip")
    assert (receipt["outcome"], receipt["action"], receipt["job_run_id"]) == ("created", "complete", run)
    assert (receipt["expense"]["amount"], receipt["expense"]["currency"]) == ("9.99", "SEK")
    again = cli.json("schedule", "answer", run, "complete", "--key", "tap", "--note", "with a tip")
    assert {**receipt, "outcome": "existing"} == again
    assert isinstance(cli.error("schedule", "answer", run, "skip", "--key", "tap"), KeyReused)
    refused = cli.process("schedule", "answer", run, "skip")
    assert refused.returncode == AlreadyAnswered.exit_status
    assert "was answered already" in refused.stderr
    assert f"confirmation_id   {receipt['confirmation_id']}" in refused.stdout
    as_json = cli.run("schedule", "answer", run, "skip", "--json")
    printed = json.loads(as_json.stdout)
    assert (as_json.exit_code, printed["error"]["code"]) == (2, "ALREADY_ANSWERED")
    assert printed["receipt"]["confirmation_id"] == receipt["confirmation_id"]
    reversal = cli.json("schedule", "reverse-expense", run)
    assert (reversal["outcome"], reversal["reverses"], reversal["amount"]) == (
        "created",
        receipt["expense"]["id"],
        "-9.990000",
    )
    assert f"expense {reversal['id']} reverses expense {reversal['reverses']}" in cli.output(
        "schedule", "reverse-expense", run
    )
    assert cli.json("schedule", "reverse-expense", run)["outcome"] == "existing"
    log = cli.json("schedule", "timeline", run)
    assert [each["next_status"] for each in log] == ["pending", "sent", "confirmed"]
    assert "confirmed" in cli.output("schedule", "timeline", run)
    assert isinstance(cli.error("schedule", "timeline", 999), NotFound)
    assert cli.json("schedule", "explain", run)["reason"] == "answered"
    assert "It was answered with complete" in cli.output("schedule", "explain", run)
    assert isinstance(cli.error("schedule", "explain", 999), NotFound)


# Messages -------------------------------------------------------------------------------------------------------------


# The books ------------------------------------------------------------------------------------------------------------


def test_expenses_are_listed_and_exported(cli: ScheduleCommandLine, tmp_path: Path) -> None:
    run = cli.sent_run("--amount", "9.99", "--category", "电视", "--merchant", 'The "Shop"', "--note", "=1+1")
    cli.output("schedule", "answer", run, "complete")
    cli.output("schedule", "reverse-expense", run)
    entries = cli.json("expenses", "list")["items"]
    assert [each["amount"] for each in entries] == ["9.990000", "-9.990000"]
    assert len(cli.json("expenses", "list", "--user", "anna", "--limit", 1)["items"]) == 1
    assert cli.json("expenses", "list", "--user", "bo")["items"] == []
    assert cli.json("expenses", "list", "--to", "2020-01-01")["items"] == []
    head, *rows = cli.output("expenses", "list", "--from", "2020-01-01").splitlines()
    assert head.split()[:4] == ["id", "occurred_at", "name", "amount"]
    assert len(rows) == 2
    text = cli.process("expenses", "export", "--format", "beancount")
    assert (text.returncode, text.stderr) == (0, "")
    _, errors, _ = loader.load_string(text.stdout)  # pyright: ignore[reportUnknownMemberType]
    assert errors == []
    assert 'reverses: "' in text.stdout
    file = tmp_path / "books.beancount"
    arguments = ["expenses", "export", "--format", "beancount", "--out", file]
    assert cli.output(*arguments) == f"exported  2 expenses to {file}\n"
    assert file.read_text() == text.stdout
    assert file.stat().st_mode & 0o777 == 0o666 & ~umask()
    assert cli.json(*arguments) == {"entries": 2, "file": str(file)}
    assert [path.name for path in tmp_path.iterdir()] == ["books.beancount"]
    printed = cli.run("expenses", "export", "--format", "csv", "--zone", "Europe/Stockholm").stdout_bytes.decode()
    rows = list(csv.DictReader(io.StringIO(printed, newline="")))
    assert [row["note"] for row in rows] == ["'=1+1", "'=1+1"]
    assert printed.endswith("\r\n")


def umask() -> int:
    """What new files do not allow."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def test_a_refused_command_exits_with_its_status_and_error_code(cli: ScheduleCommandLine) -> None:
    refused = cli.process("schedule", "show", 999)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "there is no schedule 999" in refused.stderr
    as_json = cli.process("notifications", "show", uuid4(), "--json")
    assert (as_json.returncode, json.loads(as_json.stdout)["error"]["code"]) == (2, "NOT_FOUND")
