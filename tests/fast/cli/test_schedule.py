"""`duly schedule`, `notifications`, `expenses` and a user's quiet hours and webhook."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from standardwebhooks import Webhook

from duly.errors import DulyError, IllegalTransition, InvalidArgument, KeyReused, NotFound, NothingToReverse, RunClosed
from duly.testing import move_clock
from tests.support.actions import Admin
from tests.support.command_line import CommandLine
from tests.support.fixtures import admin, database

__all__ = ["admin", "database"]

MONTHLY = "cron: 0 10 1 * *"
RENT = ["schedule", "add", "Rent", "--user", "anna", "--rule", MONTHLY]
SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SCHEDULE_KEYS = {
    "id",
    "user_id",
    "uid",
    "zone",
    "name",
    "description",
    "rule",
    "first_run_at",
    "advance_minutes",
    "channel",
    "status",
    "catch_up",
    "created_at",
    "updated_at",
    "next_at",
    "plan_error",
    "expense",
    "rule_in_words",
    "next",
}


class ScheduleCommandLine(CommandLine):
    """The command line, with runs that were sent."""

    def sent_run(self, *more: object) -> int:
        """Fire a schedule and send its reminder; return the id of the run."""
        schedule = self.json(*RENT, "--channel", "console", *more)["id"]
        run = self.json("schedule", "fire", schedule)["id"]
        self.run_worker("scheduler", "outbox")
        assert self.json("schedule", "runs", "--status", "sent")["items"][0]["id"] == run
        return run


@pytest.fixture
def cli(admin: Admin, tmp_path: Path) -> ScheduleCommandLine:
    """The command line over a database with two users."""
    cli = ScheduleCommandLine(admin.info.dsn, tmp_path)
    cli.output("people", "create", "anna", "--zone", "Europe/Stockholm", "--currency", "SEK")
    cli.output("people", "create", "bo")
    return cli


# Schedules ------------------------------------------------------------------------------------------------------------


def test_add_prints_the_rule_as_a_sentence_and_its_next_times(cli: ScheduleCommandLine) -> None:
    first = ["--first-run-at", "2040-01-15T00:00Z"]
    created = cli.json(
        *RENT, *first, "--advance", 60, "--description", "the flat", "--amount", "950", "--category", "home"
    )
    assert created.keys() == SCHEDULE_KEYS | {"outcome"}
    assert (created["outcome"], created["uid"], created["channel"], created["catch_up"]) == (
        "created",
        "anna",
        "telegram",
        "latest",
    )
    assert (created["advance_minutes"], created["description"]) == (60, "the flat")
    assert created["expense"] == {"amount": "950", "currency": "SEK", "category": "home"}
    assert created["next"] == [
        {"period": "2040-02", "local": "2040-02-01T10:00+01:00", "utc": "2040-02-01T09:00Z"},
        {"period": "2040-03", "local": "2040-03-01T10:00+01:00", "utc": "2040-03-01T09:00Z"},
        {"period": "2040-04", "local": "2040-04-01T10:00+02:00", "utc": "2040-04-01T08:00Z"},
    ]
    assert "Europe/Stockholm" in created["rule_in_words"]
    printed_text = cli.output(*RENT, *first)
    assert re.match(r"created +schedule \d+\n", printed_text)
    assert "2040-02-01T10:00+01:00  2040-02-01T09:00Z" in printed_text
    assert "in words " in printed_text


def test_next_times_follow_the_rules_zone_and_the_clock_of_the_database(cli: ScheduleCommandLine, admin: Admin) -> None:
    rule = '{"every": "month", "day": 1, "at": "10:00", "tz": "Asia/Tokyo"}'
    created = cli.json(
        "schedule", "add", "Rent", "--user", "anna", "--rule", rule, "--first-run-at", "2040-01-15T00:00Z"
    )
    assert created["next"][0] == {"period": "2040-02", "local": "2040-02-01T10:00+09:00", "utc": "2040-02-01T01:00Z"}
    assert "Asia/Tokyo" in cli.output("schedule", "show", created["id"]).splitlines()[-6]
    years = datetime(2041, 1, 15, tzinfo=UTC) - datetime.now(UTC)
    move_clock(admin, years.total_seconds())
    assert cli.json("schedule", "show", created["id"])["next"][0]["period"] == "2041-02"


def test_repeated_key_creates_one_schedule_and_another_request_is_refused(cli: ScheduleCommandLine) -> None:
    first = cli.json(*RENT, "--key", "k")
    again = cli.json(*RENT, "--key", "k")
    assert (first["outcome"], again["outcome"], first["id"]) == ("created", "existing", again["id"])
    assert isinstance(cli.error(*RENT, "--key", "k", "--advance", 5), KeyReused)
    assert len(cli.json("schedule", "list")["items"]) == 1


@pytest.mark.parametrize(
    ("arguments", "error", "why"),
    [
        (["--user", "cia"], NotFound, "there is no person with the uid 'cia'; see: duly people list"),
        (["--user", "\udcff"], NotFound, "no person with the uid"),
        (["--rule", "cron: 61 * * * *"], InvalidArgument, "is '61'"),
        (["--first-run-at", "soon"], InvalidArgument, "--first-run-at 'soon': must be a time"),
        (["--first-run-at", "1999-01-01"], InvalidArgument, "years 2000 to 2199"),
        (["--amount", "much"], InvalidArgument, "expense.amount: must be an amount such as 9.99"),
        (["--category", "home"], InvalidArgument, "--category without --amount"),
        (["--amount", "1", "--currency", "euro"], InvalidArgument, "three capital letters"),
        (["--description", "x" * 501], InvalidArgument, "description: must be a text of 1 to 500"),
    ],
)
def test_invalid_schedule_is_refused(
    arguments: list[str], error: type[DulyError], why: str, cli: ScheduleCommandLine
) -> None:
    refusal = cli.error(*RENT, *arguments)
    assert type(refusal) is error
    assert why in str(refusal)
    assert cli.json("schedule", "list")["items"] == []


def test_invalid_arguments_are_usage_errors(cli: ScheduleCommandLine) -> None:
    for arguments in (
        [*RENT, "--channel", "pigeon"],
        [*RENT, "--catch-up", "some"],
        [*RENT, "--advance", "10081"],
        ["schedule", "answer", "1", "perhaps"],
        ["schedule", "show", "0"],
        ["schedule", "list", "--status", "sleeping"],
        ["expenses", "export", "--format", "xls"],
    ):
        assert cli.run(*arguments).exit_code == 2


# People ---------------------------------------------------------------------------------------------------------------


def test_quiet_hours_of_a_user_can_be_set_and_removed(admin: Admin, cli: ScheduleCommandLine) -> None:
    assert cli.json("people", "set", "anna", "--quiet", "22:00-07:00")["quiet"] == "22:00-07:00"
    ((hours,),) = admin.execute("select quiet_from::text || quiet_until::text from duly.person where uid = 'anna'")
    assert hours == "22:00:0007:00:00"
    assert [each["quiet"] for each in cli.json("people", "list")] == ["22:00-07:00", None]
    assert "22:00-07:00" in cli.output("people", "list")
    assert "quiet 22:00-07:00" in cli.output("people", "set", "anna", "--zone", "UTC")
    assert cli.json("people", "set", "anna", "--quiet", "none")["quiet"] is None
    for hours in ("22-7", "24:00-07:00", "22:00-22:00", "22:60-07:00", ""):
        refusal = cli.error("people", "set", "anna", "--quiet", hours)
        assert "quiet hours" in str(refusal)
    assert isinstance(cli.error("people", "set", "cia", "--quiet", "none"), NotFound)


def test_webhook_secret_of_a_user_is_shown_once(admin: Admin, cli: ScheduleCommandLine) -> None:
    url = "https://example.com/hooks?a=b"
    created = cli.json("people", "set", "anna", "--webhook", url)
    assert created["webhook"] == url
    secret = created["webhook_secret"]
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", secret)
    Webhook(secret)
    ((stored,),) = admin.execute("select secret from duly.webhooks")
    assert stored == secret
    listed = cli.output("people", "list") + json.dumps(cli.json("people", "list"))
    assert url in listed
    assert "whsec_" not in listed
    printed_text = cli.output("people", "set", "anna", "--webhook", "http://localhost:9000/x")
    assert re.search(r"^secret    whsec_\S+$", printed_text, re.MULTILINE)
    given = cli.output("people", "set", "anna", "--webhook", url, "--webhook-secret", SECRET)
    assert "whsec_" not in given
    ((stored,),) = admin.execute("select secret from duly.webhooks")
    assert stored == SECRET
    assert cli.json("people", "set", "anna", "--webhook", "none")["webhook"] is None
    assert admin.execute("select 1 from duly.webhooks").fetchall() == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--webhook", "ftp://example.com"],
        ["--webhook", "example.com"],
        ["--webhook", "https://"],
        ["--webhook", "https://exa mple.com"],
        ["--webhook", "https://example.com:99999/"],
        ["--webhook", "https://[::1/"],
        ["--webhook", "https://example.com/" + "x" * 2048],
        ["--webhook", "https://example.com", "--webhook-secret", "short"],
        ["--webhook", "https://example.com", "--webhook-secret", "whsec_" + "=" * 40],
        ["--webhook", "none", "--webhook-secret", SECRET],
        ["--webhook-secret", SECRET],
    ],
)
def test_invalid_webhook_is_refused_before_anything_is_changed(arguments: list[str], cli: ScheduleCommandLine) -> None:
    refusal = cli.error("people", "set", "anna", "--zone", "UTC", *arguments)
    assert isinstance(refusal, InvalidArgument)
    assert "webhook" in str(refusal)
    assert "MfKQ9r8" not in str(refusal)
    assert cli.json("people", "list")[0]["zone"] == "Europe/Stockholm"


def test_rotate_links_creates_a_new_signing_key(admin: Admin, cli: ScheduleCommandLine) -> None:
    assert cli.json("keys", "rotate-links") == {"deleted_keys": 0}
    assert cli.json("keys", "rotate-links", "--now") == {"deleted_keys": 2}
    assert admin.execute("select count(*), count(distinct secret) from duly.link_keys").fetchall() == [(1, 1)]


def test_edit_changes_only_the_given_fields(cli: ScheduleCommandLine) -> None:
    key = cli.json(*RENT)["id"]
    changed = cli.json("schedule", "edit", key, "--name", "Home", "--rule", "cron: 0 9 2 * *", "--catch-up", "all")
    assert (changed["name"], changed["rule"], changed["catch_up"]) == ("Home", "cron: 0 9 2 * *", "all")
    assert changed["channel"] == "telegram"
    first = cli.json("schedule", "edit", key, "--first-run-at", "2041-01-01")["first_run_at"]
    assert first == "2041-01-01T00:00:00+00:00"
    assert cli.json("schedule", "edit", key, "--amount", "9.90")["expense"] == {"amount": "9.9", "currency": "SEK"}
    booked = cli.json("schedule", "edit", key, "--currency", "EUR", "--merchant", "Bo")["expense"]
    assert booked == {"amount": "9.9", "currency": "EUR", "merchant": "Bo"}
    assert cli.json("schedule", "edit", key, "--no-expense")["expense"] is None
    assert cli.output("schedule", "edit", key, "--advance", 5).startswith(f"changed           schedule {key}\n")
    for arguments, error, why in (
        ([], InvalidArgument, "nothing to change"),
        (["--no-expense", "--amount", "1"], InvalidArgument, "--no-expense and --amount"),
        (["--note", "x"], InvalidArgument, "--note without --amount"),
        (["--rule", "sometimes"], InvalidArgument, "must begin with `cron:`"),
    ):
        refusal = cli.error("schedule", "edit", key, *arguments)
        assert type(refusal) is error
        assert why in str(refusal)
    assert isinstance(cli.error("schedule", "edit", 999, "--name", "x"), NotFound)


def test_schedules_are_listed_by_user_and_status_in_pages(cli: ScheduleCommandLine) -> None:
    mine = [cli.json(*RENT)["id"] for _ in range(3)]
    theirs = cli.json("schedule", "add", "two\nlines \x1b[31m", "--user", "bo", "--rule", MONTHLY)["id"]
    cli.output("schedule", "pause", mine[0])
    page = cli.json("schedule", "list", "--limit", 3)
    assert [each["id"] for each in page["items"]] == mine
    rest = cli.json("schedule", "list", "--cursor", page["next"])
    assert ([each["id"] for each in rest["items"]], rest["next"]) == ([theirs], None)
    assert [each["id"] for each in cli.json("schedule", "list", "--user", "bo")["items"]] == [theirs]
    assert [each["id"] for each in cli.json("schedule", "list", "--status", "paused")["items"]] == mine[:1]
    head, first, *_, last = cli.output("schedule", "list").splitlines()
    assert head.split() == ["id", "uid", "status", "name", "rule", "channel", "next_at"]
    assert first.split()[:4] == [str(mine[0]), "anna", "paused", "Rent"]
    assert "two lines \N{REPLACEMENT CHARACTER}[31m" in last
    assert "more      --cursor " in cli.output("schedule", "list", "--limit", 1)
    assert isinstance(cli.error("schedule", "list", "--user", "cia"), NotFound)
    assert isinstance(cli.error("schedule", "list", "--cursor", "nonsense"), InvalidArgument)


def test_a_schedule_is_paused_resumed_and_archived(cli: ScheduleCommandLine) -> None:
    key = cli.json(*RENT)["id"]
    assert cli.output("schedule", "pause", key) == f"paused    {key}  Rent\n"
    shown = cli.output("schedule", "show", key)
    assert "it is paused: nothing fires" in shown
    assert cli.json("schedule", "resume", key)["status"] == "active"
    assert cli.json("schedule", "resume", key)["status"] == "active"  # twice is once
    assert cli.json("schedule", "archive", key)["status"] == "archived"
    assert isinstance(cli.error("schedule", "resume", key), IllegalTransition)
    assert isinstance(cli.error("schedule", "fire", key), IllegalTransition)
    assert isinstance(cli.error("schedule", "edit", key, "--name", "x"), IllegalTransition)
    assert isinstance(cli.error("schedule", "pause", 999), NotFound)


def test_schedule_is_printed_with_its_firings_and_open_runs(admin: Admin, cli: ScheduleCommandLine) -> None:
    key = cli.json(*RENT)["id"]
    fired = cli.json("schedule", "fire", key)
    assert (fired["outcome"], fired["status"]) == ("created", "pending")
    assert re.fullmatch(r"(created|existing) +run \d+ of Rent, fired-\S+Z\n", cli.output("schedule", "fire", key))
    shown = cli.json("schedule", "show", key)
    assert shown.keys() == SCHEDULE_KEYS | {"open_runs"}
    assert len(shown["next"]) == 5
    assert fired["id"] in [run["id"] for run in shown["open_runs"]]
    text = cli.output("schedule", "show", key)
    assert "Europe/Stockholm" in text
    assert fired["period_key"] in text
    admin.execute("update scheduler.jobs set rule = 'every so often'")
    assert "invalid rule: rule: must begin with" in cli.output("schedule", "show", key)
    assert isinstance(cli.error("schedule", "show", 999), NotFound)


def test_notifications_delivered_by_a_backend_are_not_listed(admin: Admin, cli: ScheduleCommandLine) -> None:
    admin.execute("create schema theirs")
    cli.environment["DB_SCHEMA"] = "theirs"
    assert "delivered by the backend" in str(cli.error("notifications", "list", "--days"))


def test_invalid_export_is_refused_and_leaves_no_file(cli: ScheduleCommandLine, tmp_path: Path) -> None:
    export = ["expenses", "export", "--format", "csv"]
    for arguments, error, why in (
        (["--json"], InvalidArgument, "--out FILE"),
        (["--from", "soon"], InvalidArgument, "--from 'soon': must be a time such as 2030-01-31T08:00+01:00"),
        (["--from", "2026-02-01", "--to", "2026-01-01"], InvalidArgument, "the second must be later"),
        (["--zone", "Nowhere"], InvalidArgument, "Nowhere"),
        (["--user", "cia", "--out", tmp_path / "x"], NotFound, "no person with the uid 'cia'"),
        (["--out", tmp_path], InvalidArgument, "is a directory"),
        (["--out", tmp_path / "no" / "x"], InvalidArgument, "cannot be written: No such file or directory"),
        (["--out", "/dev/full"], InvalidArgument, "cannot be written: No space left on device"),
    ):
        refusal = cli.error(*export, *arguments)
        assert type(refusal) is error
        assert why in str(refusal)
    assert list(tmp_path.iterdir()) == []


def test_seed_creates_the_sample_once(cli: ScheduleCommandLine) -> None:
    first = cli.json("schedule", "seed")
    assert (first["outcome"], first["user"]) == ("created", {"outcome": "created", "uid": "sample"})
    assert (first["schedule"]["name"], first["schedule"]["rule"]) == ("YouTube 订阅", "cron: 0 10 1 * *")
    again = cli.json("schedule", "seed")
    assert (again["outcome"], again["user"]["outcome"]) == ("existing", "existing")
    assert again["schedule"] == first["schedule"]
    assert "nothing was changed" in cli.output("schedule", "seed")
    assert len(cli.json("schedule", "list", "--user", "sample")["items"]) == 1
    cli.run_worker("scheduler")
    runs = cli.json("schedule", "runs", "--user", "sample")["items"]
    assert [run["name"] for run in runs] in (["YouTube 订阅"], [])  # before ten on the first of a month there is none


def test_reversal_is_possible_for_the_configured_time(cli: ScheduleCommandLine, admin: Admin) -> None:
    run = cli.sent_run("--amount", "9.99")
    cli.output("schedule", "answer", run, "complete")
    move_clock(admin, 30)
    cli.environment["DULY_SCHEDULER_REVERSAL_SECONDS"] = "20"
    assert "its expense can be reversed for 00:00:20 and no longer" in str(
        cli.error("schedule", "reverse-expense", run)
    )
    cli.environment["DULY_SCHEDULER_REVERSAL_SECONDS"] = "3600"
    move_clock(admin, 1800)
    assert cli.json("schedule", "reverse-expense", run)["outcome"] == "created"


def test_snoozing_and_skipping_a_run_is_printed(cli: ScheduleCommandLine) -> None:
    run = cli.sent_run()
    printed_text = cli.output("schedule", "answer", run, "snooze", "--minutes", 10)
    assert printed_text.startswith(f"created           snooze of run {run}, fired-")
    assert "remind_at " in printed_text
    assert UUID(re.search(r"idempotency_key +(\S+)", printed_text)[1])  # type: ignore[index]
    for arguments, why in (
        (["skip", "--minutes", 5], "--minutes: does not go with skip"),
        (["complete", "--minutes", 5], "--minutes: does not go with complete; valid: --amount, --currency, "),
        (["snooze", "--note", "x"], "--note: does not go with snooze; valid: --minutes"),
        (["complete", "--amount", "much"], "--amount: must be an amount such as 9.99"),
        (["complete", "--note", "x"], "--note: needs --amount, because "),
    ):
        assert str(cli.error("schedule", "answer", run, *arguments)).startswith(why)
    assert cli.json("schedule", "answer", run, "skip")["outcome"] == "created"
    assert isinstance(cli.error("schedule", "reverse-expense", run), NothingToReverse)
    assert isinstance(cli.error("schedule", "answer", 999, "skip"), NotFound)


def test_second_answer_is_refused_with_the_time_of_the_first(cli: ScheduleCommandLine) -> None:
    run = cli.sent_run("--amount", "9500")
    cli.output("schedule", "answer", run, "complete", "--key", "k")
    first = cli.json("schedule", "answer", run, "complete", "--key", "k")
    refused = cli.run("schedule", "answer", run, "skip", "--json")
    assert json.loads(refused.stdout)["receipt"] == {name: first[name] for name in first if name != "outcome"}
    refused = cli.run("schedule", "answer", run, "skip")
    assert refused.exit_code == 2
    first = re.escape(f"duly: run {run} was answered already: complete, at ")
    assert re.match(rf"{first}\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC\n", refused.stderr), refused.stderr
    (entry,) = cli.output("expenses", "list").splitlines()[1:]
    assert "  9500.00  " in entry
    assert cli.json("expenses", "list")["items"][0]["amount"] == "9500.000000"


def test_schedule_next_prints_utc_times_only_once(cli: ScheduleCommandLine) -> None:
    _, head, *rows = cli.output("schedule", "next", MONTHLY, "--zone", "UTC").splitlines()
    assert head.split() == ["period", "UTC"]
    assert all(len(row.split()) == 2 for row in rows)
    _, head, *_ = cli.output("schedule", "next", MONTHLY, "--zone", "Europe/Stockholm").splitlines()
    assert head.split() == ["period", "Europe/Stockholm", "UTC"]


def test_closed_run_accepts_no_answer(cli: ScheduleCommandLine) -> None:
    run = cli.sent_run()
    schedule = cli.json("schedule", "runs")["items"][0]["job_id"]
    cli.output("schedule", "archive", schedule)
    assert isinstance(cli.error("schedule", "answer", run, "complete"), RunClosed)


def test_runs_and_upcoming_firings_are_listed(cli: ScheduleCommandLine) -> None:
    mine = cli.json(*RENT)["id"]
    theirs = cli.json("schedule", "add", "Tea", "--user", "bo", "--rule", MONTHLY)["id"]
    runs = [cli.json("schedule", "fire", schedule)["id"] for schedule in (mine, theirs)]
    cli.run_worker("scheduler")
    listed = cli.json("schedule", "runs")["items"]
    assert set(runs) <= {run["id"] for run in listed}
    fired = [run for run in cli.json("schedule", "runs", mine)["items"] if run["period_key"].startswith("fired-")]
    assert [run["id"] for run in fired] == [runs[0]]
    assert {run["job_id"] for run in cli.json("schedule", "runs", "--user", "bo")["items"]} == {theirs}
    assert cli.json("schedule", "runs", "--status", "skipped")["items"] == []
    head, *_ = cli.output("schedule", "runs").splitlines()
    assert head.split() == ["id", "schedule_id", "name", "period_key", "scheduled_at", "status", "sent_at", "reason"]
    assert isinstance(cli.error("schedule", "runs", theirs, "--user", "anna"), NotFound)
    coming = cli.json("schedule", "upcoming", "--user", "anna")["items"]
    assert {each["job_id"] for each in coming} == {mine}
    assert runs[0] in [each["job_run_id"] for each in coming]
    assert [each for each in coming if each["job_run_id"] is None]
    assert "Rent" in cli.output("schedule", "upcoming")


def test_messages_are_listed_and_printed(cli: ScheduleCommandLine) -> None:
    run = cli.sent_run()
    (message,) = cli.json("notifications", "list")["items"]
    assert (message["status"], message["channel"], message["recipient"]) == ("sent", "console", "anna")
    assert message["payload"]["job_run_id"] == run
    shown = cli.json("notifications", "show", message["id"])
    assert shown == message
    assert f"id                {message['id']}" in cli.output("notifications", "show", message["id"])
    for arguments, several in (
        (["--status", "sent"], 1),
        (["--status", "failed"], 0),
        (["--channel", "console"], 1),
        (["--channel", "telegram"], 0),
        (["--user", "anna"], 1),
        (["--user", "bo"], 0),
    ):
        assert len(cli.json("notifications", "list", *arguments)["items"]) == several
    head, row = cli.output("notifications", "list").splitlines()
    assert head.split() == ["id", "created_at", "channel", "recipient", "kind", "status", "sent_at", "last_error"]
    assert row.startswith(message["id"])
    assert isinstance(cli.error("notifications", "list", "--user", "cia"), NotFound)
    assert isinstance(cli.error("notifications", "show", uuid4()), NotFound)
    assert "'nonsense' is not the id of a message" in str(cli.error("notifications", "show", "nonsense"))
    assert isinstance(cli.error("notifications", "resend", message["id"]), IllegalTransition)
    assert isinstance(cli.error("notifications", "resolve", message["id"], "--sent"), IllegalTransition)


def uncertain(admin: Admin) -> UUID:
    """A message whose arrival is unknown."""
    ((key,),) = admin.execute(
        "insert into duly.outbox (channel, recipient, kind, payload)"
        """ values ('console', 'anna', 'test', '{"message": "Hello"}') returning id"""
    )
    admin.execute(
        "update duly.outbox set status = 'sending', lease_owner = 'w/1', starts = 1, called_at = duly.clock(),"
        " lease_expires_at = duly.clock() + interval '1 minute' where id = %s",
        [key],
    )
    admin.execute(
        "update duly.outbox set status = 'uncertain', lease_owner = null, lease_expires_at = null,"
        " last_error = 'its sender ended' where id = %s",
        [key],
    )
    return key


def test_message_can_be_resent_or_resolved(admin: Admin, cli: ScheduleCommandLine) -> None:
    arrived, lost, again = uncertain(admin), uncertain(admin), uncertain(admin)
    assert "--sent if the message arrived" in str(cli.error("notifications", "resolve", arrived))
    assert cli.json("notifications", "resolve", arrived, "--sent")["status"] == "sent"
    assert cli.json("notifications", "resolve", lost, "--not-sent")["status"] == "failed"
    assert cli.json("notifications", "resend", again)["status"] == "pending"
    assert "status            pending" in cli.output("notifications", "resend", lost)
    cli.run_worker("outbox")
    assert {each["status"] for each in cli.json("notifications", "list")["items"]} == {"sent"}


def uncertain_about_a_day(admin: Admin, key: str) -> str:
    """A message about a day, whose arrival is unknown."""
    session = "00000000-0000-0000-0000-000000000001"
    admin.execute(
        "insert into schedule_ingest.capture_session (id, user_id, payload, given_at, closed_at)"
        " values (%s, 42, '{}', duly.clock(), duly.clock()) on conflict do nothing",
        [session],
    )
    admin.execute(
        "insert into schedule_ingest.schedule_notification"
        " (notification_id, user_id, schedule_date, source_session_id, notification_type, message, event_ids, channel)"
        " values (%s, 42, '2026-02-10', %s, 'event', 'A shift was added', '[]', 'console')",
        [key, session],
    )
    for move in (
        "delivery = 'sending', lease_owner = 'w/1', starts = 1, called_at = duly.clock(),"
        " lease_expires_at = duly.clock() + interval '1 minute'",
        "delivery = 'uncertain', lease_owner = null, lease_expires_at = null, last_error = 'its sender ended'",
    ):
        moved = f"update schedule_ingest.schedule_notification set {move} where notification_id = %s"
        admin.execute(moved.encode(), [key])
    return key


def test_message_about_a_day_can_be_listed_resent_or_resolved(admin: Admin, cli: ScheduleCommandLine) -> None:
    arrived, lost, again = (uncertain_about_a_day(admin, key) for key in ("n1", "n2", "n3"))
    found = cli.json("notifications", "list", "--days", "--status", "uncertain")["items"]
    assert [each["id"] for each in found] == ["n3", "n2", "n1"]
    assert {(each["recipient"], each["kind"], each["last_error"]) for each in found} == {
        ("42", "schedule.event", "its sender ended")
    }
    shown = cli.json("notifications", "show", "--days", "n1")
    assert (shown["status"], shown["payload"]["message"]) == ("uncertain", "A shift was added")
    assert shown["payload"]["schedule_date"] == "2026-02-10"
    assert len(cli.json("notifications", "list", "--days", "--user", 42)["items"]) == 3
    assert cli.json("notifications", "list", "--days", "--user", 43)["items"] == []
    assert "anna has none" in str(cli.error("notifications", "list", "--days", "--user", "anna"))
    assert cli.json("notifications", "list")["items"] == []
    assert cli.json("notifications", "resolve", "--days", arrived, "--sent")["status"] == "sent"
    assert cli.json("notifications", "resolve", "--days", lost, "--not-sent")["status"] == "failed"
    assert cli.json("notifications", "resend", "--days", again)["status"] == "pending"
    contract = "select status, sent_at is not null from schedule_ingest.schedule_notification order by seq"
    assert admin.execute(contract).fetchall() == [("sent", True), ("failed", False), ("pending", False)]
    assert isinstance(cli.error("notifications", "resend", "--days", arrived), IllegalTransition)
    assert isinstance(cli.error("notifications", "resolve", "--days", arrived, "--sent"), IllegalTransition)
    assert isinstance(cli.error("notifications", "show", "--days", "nonsense"), NotFound)
    assert isinstance(cli.error("notifications", "show", "--days", "n\0"), InvalidArgument)
    cli.run_worker("notifications")
    assert [each["status"] for each in cli.json("notifications", "list", "--days")["items"]] == [
        "sent",
        "failed",
        "sent",
    ]


def test_reminder_in_quiet_hours_is_due_at_their_end(admin: Admin, cli: ScheduleCommandLine) -> None:
    cli.output("people", "set", "bo", "--quiet", "22:00-07:00")
    ((seconds,),) = admin.execute(
        "select extract(epoch from date_trunc('day', duly.clock(), 'UTC') + interval '25 hours' - duly.clock())::float8"
    )
    move_clock(admin, seconds)
    key = cli.json("schedule", "add", "Tea", "--user", "bo", "--rule", MONTHLY, "--channel", "console")["id"]
    cli.output("schedule", "fire", key)
    cli.run_worker("scheduler")
    (message,) = cli.json("notifications", "list", "--user", "bo")["items"]
    assert (message["status"], message["due_at"][11:16]) == ("pending", "07:00")


def test_apprise_url_of_a_user_is_stored_and_never_printed(admin: Admin, cli: ScheduleCommandLine) -> None:
    created = cli.json("people", "set", "anna", "--apprise", "NTFYS://tk_hunter2@ntfy.sh/topic")
    assert created["apprise"] == "ntfys"
    assert admin.execute("select url from duly.apprise_addresses").fetchall() == [("ntfys://tk_hunter2@ntfy.sh/topic",)]
    listed = cli.output("people", "list") + json.dumps(cli.json("people", "list")) + json.dumps(created)
    assert "ntfys" in listed
    assert "hunter2" not in listed
    given = cli.run("people", "set", "anna", "--apprise", "-", stdin="json://example.com/hunter2\n")
    assert (given.exit_code, "hunter2" in given.output) == (0, False)
    assert admin.execute("select service from duly.apprise_addresses").fetchall() == [("json",)]
    refusal = cli.error("people", "set", "anna", "--zone", "UTC", "--apprise", "json://u:hunter2@127.0.0.1/")
    assert isinstance(refusal, InvalidArgument)
    assert "hunter2" not in str(refusal)
    assert cli.json("people", "list")[0]["zone"] == "Europe/Stockholm"
    assert cli.json("people", "set", "anna", "--apprise", "none")["apprise"] is None
    assert admin.execute("select 1 from duly.apprise_addresses").fetchall() == []
