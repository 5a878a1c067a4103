"""The scheduler over HTTP: schedules, runs, answers, expenses, the calendar feed, and every error."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar
from uuid import uuid4
from zoneinfo import ZoneInfo

import httpx2
import orjson
import psycopg
import pytest
from icalendar import Calendar
from psycopg.conninfo import make_conninfo

from duly.accounts.service import change_person
from duly.apps.ingest.shift import shift_from_entry
from duly.apps.scheduler.calendar import (
    FEED_FUTURE,
    MAX_EVENTS,
    recent_runs,
    render_calendar,
    upcoming_firings,
)
from duly.apps.scheduler.http.calendar import render_feed
from duly.apps.scheduler.model import CatchUp, Run, RunStatus, Schedule, ScheduleStatus
from duly.apps.scheduler.planning import schedule_firings
from duly.apps.scheduler.wallclock import to_instant
from duly.db.migrations import Names
from duly.db.pool import connect, open_pool
from duly.http.app import build_app
from duly.http.problems import MEDIA_TYPE
from duly.paging import encode_cursor
from duly.settings import Settings
from duly.testing import TestDatabases, install_test_clock, move_clock
from tests.support.api import api_of, as_owner, client_for, key_for, running, temporary_object_store
from tests.support.scheduler.actions import ScheduleActions

NOWHERE = 4_000_000_000

Json = dict[str, Any]
Admin = psycopg.Connection[Any]
T = TypeVar("T")
BOTH = ("scheduler:read", "scheduler:write")
SCHEDULES, RUNS, ANSWERS, EXPENSES = "/v1/schedules", "/v1/job-runs", "/v1/confirmations", "/v1/expenses"
CALENDAR = "/v1/calendar"
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
DAILY, MONTHLY = "cron: 30 12 * * *", "cron: 0 10 1 * *"
TEMPLATE = {"amount": "9.99", "currency": "EUR", "category": "tv"}


class ApiEnvironment:
    """An API over a database whose clock is set to noon, and people with API keys."""

    def __init__(self, admin: Admin, address: str, stack: ExitStack) -> None:
        self.admin = admin
        self.database = admin.info.dsn
        self.address = address
        self.stack = stack

    def person(self, uid: str, scopes: Sequence[str] = BOTH) -> httpx2.Client:
        """Return a client with the key of a person."""
        return self.stack.enter_context(client_for(self.address, key_for(self.database, None, scopes, uid=uid).secret))

    def org(self, scopes: Sequence[str] = BOTH) -> httpx2.Client:
        """Return a client with the key of an org, without a person."""
        return self.stack.enter_context(client_for(self.address, key_for(self.database, "acme", scopes).secret))

    def anonymous(self) -> httpx2.Client:
        """Return a client without a key."""
        return self.stack.enter_context(client_for(self.address))

    def ask(self, question: Callable[[ScheduleActions], Awaitable[T]]) -> T:
        """Yield the actions of the scheduler."""

        async def run() -> T:
            worker = make_conninfo(self.database, user=Names().worker)
            async with open_pool(self.database, size=1) as pool, await connect(worker) as connection:
                return await question(ScheduleActions(self.admin, connection, pool))

        return asyncio.run(run())

    def turn(self, seconds: float = 0, *, send: bool = True) -> None:
        """Advance the clock, and let a worker plan, remind and send."""
        move_clock(self.admin, seconds)
        self.ask(lambda schedules: schedules.run_cycle(send=send))


@contextmanager
def opened(database: str) -> Generator[ApiEnvironment, None, None]:
    """Serve an empty database."""
    with ExitStack() as stack, psycopg.connect(database, autocommit=True) as admin:
        admin.execute("set timezone = 'UTC'")
        install_test_clock(admin)
        now = admin.execute("select duly.clock()").fetchall()[0][0]
        move_clock(admin, (NOON - now).total_seconds())
        objects = stack.enter_context(temporary_object_store())
        yield ApiEnvironment(admin, stack.enter_context(api_of(database, objects)), stack)


@pytest.fixture
def database(movable_database: str) -> str:
    """Return a database with a test clock."""
    return movable_database


@pytest.fixture
def env(database: str) -> Generator[ApiEnvironment, None, None]:
    """Return an environment for this test."""
    with opened(database) as env:
        yield env


@pytest.fixture
def anna(env: ApiEnvironment) -> httpx2.Client:
    """Return a client of a person with schedules."""
    return env.person("anna")


@pytest.fixture(scope="module")
def shared_client(databases: TestDatabases, worker_id: str) -> Generator[httpx2.Client, None, None]:
    """Return a client in an environment shared by tests that change nothing."""
    with databases.clone(worker_id) as dsn, opened(dsn) as env:
        yield env.person("anna")


def schedule(**fields: Any) -> Json:
    """Build the request for a schedule."""
    return {"name": "Rent", "rule": DAILY, **fields}


def created(answer: httpx2.Response) -> Json:
    """Check for status 201, and return the body."""
    assert (answer.status_code, answer.headers["content-type"]) == (201, "application/json"), answer.text
    return answer.json()


def ok_body(answer: httpx2.Response) -> Json:
    """Check for status 200, and return the body."""
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), answer.text
    return answer.json()


def items(answer: httpx2.Response) -> list[Json]:
    """Return the items of the last page."""
    page = ok_body(answer)
    assert page["next"] is None
    return page["items"]


def problem(answer: httpx2.Response, status: int, code: str) -> str:
    """Check for a problem response, and return its detail."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, MEDIA_TYPE), answer.text
    assert answer.json()["code"] == code
    return answer.json()["detail"]


def sent_run(env: ApiEnvironment, person: httpx2.Client, **fields: Any) -> Json:
    """Create a schedule, and return its first run after the reminder."""
    job = created(person.post(SCHEDULES, json=schedule(**fields)))["id"]
    env.turn(31 * 60)
    (run,) = items(person.get(RUNS, params={"job_id": job}))
    assert run["status"] == "sent"
    return run


def answered(
    person: httpx2.Client, run: int, action: str = "complete", key: str = "tap", **given: Any
) -> httpx2.Response:
    """Answer a run."""
    body = {"job_run_id": run, "action": action, "idempotency_key": key, **({"payload": given} if given else {})}
    return person.post(ANSWERS, json=body)


# Schedules ------------------------------------------------------------------------------------------------------------


def test_schedule_response_describes_its_rule_and_next_firings(env: ApiEnvironment, anna: httpx2.Client) -> None:
    as_owner(env.database, lambda pool: change_person(pool, "anna", zone="Europe/Stockholm"))
    fields = schedule(
        rule=MONTHLY, description="The flat", advance_minutes=60, channel="console", catch_up="all", expense=TEMPLATE
    )
    answer = anna.post(SCHEDULES, json={**fields, "first_run_at": "2026-12-01T00:00:00+01:00"})
    body = created(answer)
    assert answer.headers["location"] == f"{SCHEDULES}/{body['id']}"
    assert {name: body[name] for name in fields} == {**fields, "expense": {**TEMPLATE, "merchant": None, "note": None}}
    assert (body["status"], body["zone"], body["plan_error"]) == ("active", "Europe/Stockholm", None)
    assert body["first_run_at"] == "2026-11-30T23:00:00Z"
    assert "Europe/Stockholm" in body["rule_in_words"]
    assert len(body["firings"]) == 5
    assert body["firings"][0] == {
        "period_key": "2026-12",
        "scheduled_at": "2026-12-01T09:00:00Z",
        "local": "2026-12-01T10:00:00+01:00",
    }
    assert body["firings"][4]["local"] == "2027-04-01T10:00:00+02:00"
    assert body["firings"][4]["scheduled_at"] == "2027-04-01T08:00:00Z"
    assert ok_body(anna.get(f"{SCHEDULES}/{body['id']}")) == body


def test_schedule_starts_now_by_the_database_clock_by_default(env: ApiEnvironment, anna: httpx2.Client) -> None:
    body = created(anna.post(SCHEDULES, json=schedule()))
    assert body["first_run_at"].startswith("2026-11-16T12:0")
    assert body["firings"][0]["scheduled_at"] == "2026-11-16T12:30:00Z"
    assert (body["advance_minutes"], body["channel"], body["catch_up"], body["expense"]) == (
        0,
        "telegram",
        "latest",
        None,
    )
    env.turn()
    assert items(anna.get(RUNS))[0]["period_key"] == body["firings"][0]["period_key"] == "2026-11-16"


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"name": ""}, "name"),
        ({"name": "a" * 121}, "name"),
        ({"name": 7}, "name"),
        ({"name": "a\0"}, "name"),
        ({"rule": "every day"}, "rule"),
        ({"rule": "cron: 61 * * * *"}, "rule"),
        ({"rule": '{"every": "month"'}, "rule"),
        ({"rule": "cron: " + "*" * 200}, "rule"),
        ({"first_run_at": "2026-01-01T10:00:00"}, "first_run_at"),
        ({"first_run_at": 1_800_000_000}, "first_run_at"),
        ({"first_run_at": "1999-01-01T10:00:00Z"}, "first_run_at"),
        ({"description": ""}, "description"),
        ({"advance_minutes": -1}, "advance_minutes"),
        ({"advance_minutes": 10_081}, "advance_minutes"),
        ({"advance_minutes": "5"}, "advance_minutes"),
        ({"channel": "Carrier Pigeon"}, "channel"),
        ({"catch_up": "some"}, "catch_up"),
        ({"expense": {"amount": "9.99"}}, "expense.currency"),
        ({"expense": {"amount": "-1", "currency": "EUR"}}, "expense.amount"),
        ({"expense": {"amount": "1.0000001", "currency": "EUR"}}, "expense.amount"),
        ({"expense": {"amount": "1e3000000000", "currency": "EUR"}}, "expense.amount"),
        ({"expense": {"amount": "1e999999999999999999", "currency": "EUR"}}, "expense.amount"),
        ({"expense": {"amount": True, "currency": "EUR"}}, "expense.amount"),
        ({"expense": {"amount": None, "currency": "EUR"}}, "expense.amount"),
        ({"expense": {"amount": 1, "currency": "kr"}}, "expense.currency"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_invalid_schedule_is_refused_with_the_field(change: Json, place: str, shared_client: httpx2.Client) -> None:
    assert place in problem(shared_client.post(SCHEDULES, json=schedule(**change)), 422, "INVALID_ARGUMENT")


@pytest.mark.parametrize("key", ["", "k" * 121])
def test_idempotency_key_has_1_to_120_characters(key: str, shared_client: httpx2.Client) -> None:
    answer = shared_client.post(SCHEDULES, json=schedule(), headers={"Idempotency-Key": key})
    assert "Idempotency-Key" in problem(answer, 422, "INVALID_ARGUMENT")


def test_patch_changes_only_the_given_fields(anna: httpx2.Client) -> None:
    before = created(anna.post(SCHEDULES, json=schedule(description="The flat", expense=TEMPLATE)))
    at = f"{SCHEDULES}/{before['id']}"
    after = ok_body(anna.patch(at, json={"name": "Flat", "rule": MONTHLY, "advance_minutes": 5, "catch_up": "none"}))
    moving = {"name", "rule", "advance_minutes", "catch_up", "rule_in_words", "firings", "updated_at"}
    assert {name for name in after if after[name] != before[name]} == moving
    assert (after["name"], after["rule"], after["firings"][0]["period_key"]) == ("Flat", MONTHLY, "2026-12")
    assert ok_body(anna.patch(at, json={"expense": {"amount": 3, "currency": "SEK"}}))["expense"]["amount"] == "3"
    assert ok_body(anna.patch(at, json={"channel": "console"}))["expense"]["currency"] == "SEK"
    assert ok_body(anna.patch(at, json={"expense": None}))["expense"] is None
    assert ok_body(anna.patch(at, json={"description": None}))["description"] is None
    assert ok_body(anna.patch(at, json={}))["name"] == "Flat"


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"name": None}, "name"),
        ({"channel": None}, "channel"),
        ({"rule": "never"}, "rule"),
        ({"status": "archived"}, "status"),
        ({"expense": {}}, "expense.amount"),
        ([], "body"),
    ],
)
def test_invalid_change_of_a_schedule_is_refused_with_the_field(change: Any, place: str, anna: httpx2.Client) -> None:
    key = created(anna.post(SCHEDULES, json=schedule()))["id"]
    assert place in problem(anna.patch(f"{SCHEDULES}/{key}", json=change), 422, "INVALID_ARGUMENT")


def test_schedule_can_be_paused_resumed_and_archived(env: ApiEnvironment, anna: httpx2.Client) -> None:
    at = f"{SCHEDULES}/{created(anna.post(SCHEDULES, json=schedule()))['id']}"
    env.turn()
    paused = ok_body(anna.post(f"{at}/pause"))
    assert (paused["status"], paused["firings"]) == ("paused", [])
    assert items(anna.get(RUNS)) == []
    assert ok_body(anna.post(f"{at}/pause"))["status"] == "paused"
    resumed = ok_body(anna.post(f"{at}/resume"))
    assert (resumed["status"], len(resumed["firings"])) == ("active", 5)
    env.turn()
    assert [each["status"] for each in items(anna.get(RUNS))] == ["pending"]
    archived = ok_body(anna.post(f"{at}/archive"))
    assert (archived["status"], archived["firings"]) == ("archived", [])
    assert [(each["status"], each["reason"]) for each in items(anna.get(RUNS))] == [
        ("cancelled", "the schedule was archived")
    ]
    problem(anna.post(f"{at}/resume"), 409, "ILLEGAL_TRANSITION")
    problem(anna.post(f"{at}/pause"), 409, "ILLEGAL_TRANSITION")
    problem(anna.post(f"{at}/fire"), 409, "ILLEGAL_TRANSITION")
    problem(anna.patch(at, json={"name": "x"}), 409, "ILLEGAL_TRANSITION")
    assert ok_body(anna.post(f"{at}/archive"))["status"] == "archived"


def test_schedule_can_be_fired_manually(env: ApiEnvironment, anna: httpx2.Client) -> None:
    at = f"{SCHEDULES}/{created(anna.post(SCHEDULES, json=schedule()))['id']}"
    first = anna.post(f"{at}/fire")
    run = created(first)
    assert (run["status"], run["period_key"][:17]) == ("pending", "fired-2026-11-16T")
    assert first.headers["location"] == f"{RUNS}/{run['id']}"
    move_clock(env.admin, 60)
    assert created(anna.post(f"{at}/fire"))["id"] != run["id"]


def test_invalid_rule_written_directly_to_the_table_is_reported_as_plan_error(
    env: ApiEnvironment, anna: httpx2.Client
) -> None:
    key = created(anna.post(SCHEDULES, json=schedule()))["id"]
    env.admin.execute("update scheduler.jobs set rule = 'cron: nonsense'")
    env.turn()
    body = ok_body(anna.get(f"{SCHEDULES}/{key}"))
    assert (body["rule_in_words"], body["firings"]) == (None, [])
    assert "rule" in body["plan_error"]


def test_upcoming_runs_are_listed_soonest_first(env: ApiEnvironment, anna: httpx2.Client) -> None:
    created(anna.post(SCHEDULES, json=schedule(name="Late", rule=MONTHLY)))
    soon = created(anna.post(SCHEDULES, json=schedule(name="Soon")))["id"]
    env.turn()
    coming = ok_body(anna.get(f"{RUNS}/upcoming"))["items"]
    assert [(each["name"], each["scheduled_at"][:10], each["status"]) for each in coming] == [
        ("Soon", "2026-11-16", "pending"),
        ("Soon", "2026-11-17", None),
        ("Late", "2026-12-01", None),
    ]
    assert coming[0]["job_id"] == soon
    assert ok_body(anna.get(f"{RUNS}/{coming[0]['job_run_id']}"))["period_key"] == coming[0]["period_key"]
    assert ok_body(anna.get(f"{RUNS}/upcoming", params={"limit": 1}))["items"] == coming[:1]
    assert ok_body(env.person("bo").get(f"{RUNS}/upcoming"))["items"] == []


@pytest.mark.parametrize(
    ("path", "query", "place"),
    [
        (SCHEDULES, {"status": "gone"}, "status"),
        (SCHEDULES, {"limit": "0"}, "limit"),
        (SCHEDULES, {"next": "!"}, "next"),
        (SCHEDULES, {"next": encode_cursor("x")}, "next"),
        (SCHEDULES, {"user": "bo"}, "user"),
        (RUNS, {"status": "gone"}, "status"),
        (RUNS, {"job_id": "0"}, "job_id"),
        (RUNS, {"from": "yesterday"}, "from"),
        (RUNS, {"to": "2026-01-01T10:00:00"}, "to"),
        (RUNS, {"next": encode_cursor(1)}, "next"),
        (f"{RUNS}/upcoming", {"limit": "201"}, "limit"),
        (f"{RUNS}/zero", {}, "run_id"),
        (f"{RUNS}/0", {}, "run_id"),
        (f"{RUNS}/{2**63}", {}, "run_id"),
        (f"{SCHEDULES}/x", {}, "schedule_id"),
        (EXPENSES, {"from": "1"}, "from"),
        (EXPENSES, {"next": encode_cursor("x")}, "next"),
    ],
)
def test_invalid_query_parameter_is_refused_and_named(
    path: str, query: dict[str, str], place: str, shared_client: httpx2.Client
) -> None:
    assert place in problem(shared_client.get(path, params=query), 422, "INVALID_ARGUMENT")


# Answers and books ----------------------------------------------------------------------------------------------------


def test_repeated_answer_is_recorded_and_booked_once(env: ApiEnvironment, anna: httpx2.Client) -> None:
    run = sent_run(env, anna, expense=TEMPLATE)
    receipt = created(answered(anna, run["id"]))
    assert (receipt["action"], receipt["period_key"], receipt["remind_at"]) == ("complete", "2026-11-16", None)
    assert (receipt["expense"]["amount"], receipt["expense"]["currency"]) == ("9.99", "EUR")
    assert ok_body(answered(anna, run["id"])) == receipt
    assert "complete" in problem(answered(anna, run["id"], "skip"), 409, "KEY_REUSED")
    late = answered(anna, run["id"], "skip", "other")
    problem(late, 409, "ALREADY_ANSWERED")
    assert late.json()["receipt"] == receipt
    (entry,) = items(anna.get(EXPENSES))
    assert (entry["id"], entry["amount"], entry["name"], entry["category"]) == (
        receipt["expense"]["id"],
        "9.99",
        "Rent",
        "tv",
    )
    assert entry["source_ref"] == f"scheduler:{run['job_id']}:2026-11-16"


@pytest.mark.parametrize(("action", "status"), [("skip", "skipped"), ("cancel", "cancelled"), ("snooze", "snoozed")])
def test_skip_cancel_and_snooze_book_no_expense(
    action: str, status: str, env: ApiEnvironment, anna: httpx2.Client
) -> None:
    run = sent_run(env, anna, expense=TEMPLATE)
    receipt = created(answered(anna, run["id"], action))
    assert receipt["expense"] is None
    assert (receipt["remind_at"] is not None) == (action == "snooze")
    assert ok_body(anna.get(f"{RUNS}/{run['id']}"))["status"] == status
    assert items(anna.get(EXPENSES)) == []


@pytest.mark.parametrize("amount", ["12.50", 12.5, " 12.5 ", "\N{FULLWIDTH DIGIT ONE}\N{FULLWIDTH DIGIT TWO}.5"])
def test_answer_may_set_the_booked_amount(amount: object, env: ApiEnvironment, anna: httpx2.Client) -> None:
    run = sent_run(env, anna)
    receipt = created(answered(anna, run["id"], amount=amount, currency="SEK", note="with a tip"))
    assert (receipt["expense"]["amount"], receipt["expense"]["currency"]) == ("12.5", "SEK")
    assert ok_body(answered(anna, run["id"], amount=amount, currency="SEK", note="with a tip")) == receipt
    assert items(anna.get(EXPENSES))[0]["note"] == "with a tip"


def test_closed_run_accepts_no_answer(env: ApiEnvironment, anna: httpx2.Client) -> None:
    run = sent_run(env, anna)
    ok_body(anna.post(f"{SCHEDULES}/{run['job_id']}/archive"))
    answer = answered(anna, run["id"])
    assert "archived" in problem(answer, 409, "RUN_CLOSED")
    assert "receipt" not in answer.json()


def test_run_without_a_sent_reminder_cannot_be_snoozed(env: ApiEnvironment, anna: httpx2.Client) -> None:
    created(anna.post(SCHEDULES, json=schedule()))
    env.turn()
    (run,) = items(anna.get(RUNS))
    problem(answered(anna, run["id"], "snooze"), 409, "REMINDER_NOT_SENT")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"action": "ignore"}, "action"),
        ({"job_run_id": "1"}, "job_run_id"),
        ({"job_run_id": 2**63}, "job_run_id"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"idempotency_key": "k" * 121}, "idempotency_key"),
        ({"payload": {"amount": "much"}}, "payload.amount"),
        ({"payload": {"colour": "red"}}, "payload.colour"),
        ({"payload": {"minutes": 5}}, "payload.minutes"),
        ({"action": "snooze", "payload": {"minutes": 0}}, "payload.minutes"),
        ({"payload": []}, "payload"),
        ({"run": 1}, "run"),
    ],
)
def test_invalid_answer_is_refused_with_the_field(change: Json, place: str, shared_client: httpx2.Client) -> None:
    body = {"job_run_id": 1, "action": "complete", "idempotency_key": "tap", **change}
    assert place in problem(shared_client.post(ANSWERS, json=body), 422, "INVALID_ARGUMENT")


def test_the_key_of_an_answer_is_its_header_or_a_field_of_its_body(env: ApiEnvironment, anna: httpx2.Client) -> None:
    run = sent_run(env, anna)["id"]
    body = {"job_run_id": run, "action": "complete"}
    assert "idempotency_key" in problem(anna.post(ANSWERS, json=body), 422, "INVALID_ARGUMENT")
    first = created(anna.post(ANSWERS, json=body, headers={"Idempotency-Key": "tap"}))
    assert ok_body(answered(anna, run)) == first
    both = anna.post(ANSWERS, json=body | {"idempotency_key": "tap"}, headers={"Idempotency-Key": "other"})
    assert "differ" in problem(both, 422, "INVALID_ARGUMENT")


# The calendar ---------------------------------------------------------------------------------------------------------


def events_of(feed: bytes) -> dict[str, Any]:
    """Return the events of a feed by name."""
    calendar: Any = Calendar.from_ical(feed)
    return {str(event["UID"]): event for event in calendar.walk("VEVENT")}


def subscribed(env: ApiEnvironment, person: httpx2.Client) -> tuple[httpx2.Client, str]:
    """Return a client without a key, and the address of a person's calendar."""
    address = created(person.post(CALENDAR))
    assert address["url"] == f"/ics/{address['token']}"
    assert len(address["token"]) == 43
    return env.anonymous(), address["url"]


def feed(answer: httpx2.Response) -> dict[str, Any]:
    """Return the events of a response."""
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/calendar; charset=utf-8"), answer.text
    return events_of(answer.content)


def test_new_calendar_url_replaces_the_old_one(env: ApiEnvironment, anna: httpx2.Client) -> None:
    reader, old = subscribed(env, anna)
    assert feed(reader.get(old)) == {}
    answer = anna.post(CALENDAR)
    assert answer.headers["cache-control"] == "no-store"
    new = created(answer)["url"]
    gone = problem(reader.get(old), 404, "NOT_FOUND")
    assert feed(reader.get(new)) == {}
    assert ok_body(anna.delete(CALENDAR)) == {"revoked": True}
    assert ok_body(anna.delete(CALENDAR)) == {"revoked": False}
    assert problem(reader.get(new), 404, "NOT_FOUND") == gone
    assert problem(reader.get("/ics/nonsense%00%ff"), 404, "NOT_FOUND") == gone


# The calendar without a login -----------------------------------------------------------------------------------------


def plan_of(key: int = 1, rule: str = DAILY, **more: Any) -> Schedule:
    """Return a schedule."""
    known = Schedule(
        id=key,
        user_id=1,
        uid="anna",
        zone="UTC",
        name="Rent",
        description=None,
        rule=rule,
        first_run_at=datetime(2026, 1, 1, tzinfo=UTC),
        advance_minutes=0,
        channel="telegram",
        status=ScheduleStatus.ACTIVE,
        catch_up=CatchUp.LATEST,
        created_at=NOON,
        updated_at=NOON,
        next_at=None,
        plan_error=None,
        expense=None,
    )
    return replace(known, **more)


def run_of(period: str, at: datetime, status: RunStatus = RunStatus.SENT, key: int = 1) -> Run:
    """Return a run of a schedule."""
    return Run(key, key, "Rent", period, at, status, None, None, None, NOON, NOON)


def test_period_with_a_run_gets_no_second_event() -> None:
    yearly = plan_of(rule="cron: 0 10 1 12 *")
    assert [firing.period_key for firing in upcoming_firings([yearly], [], NOON, 10)] == ["2026"]
    earlier = run_of("2026", NOON - timedelta(days=200), RunStatus.CONFIRMED)
    assert upcoming_firings([yearly], [earlier], NOON, 10) == []
    assert recent_runs([earlier], NOON) == []
    assert events_of(render_feed([yearly], [earlier], [], NOON)) == {}


def test_overdue_firing_without_a_run_is_still_upcoming() -> None:
    late = plan_of(next_at=NOON - timedelta(hours=47, minutes=30))
    assert [each.period_key for each in upcoming_firings([late], [], NOON, 3)] == [
        "2026-11-14",
        "2026-11-15",
        "2026-11-16",
    ]


def test_feed_follows_a_changed_rule_before_it_is_planned_again() -> None:
    changed = plan_of(next_at=NOON + FEED_FUTURE + timedelta(days=200))
    assert len(events_of(render_feed([changed], [], [], NOON))) == 90


def test_schedule_with_an_invalid_rule_does_not_affect_other_events() -> None:
    events = events_of(render_feed([plan_of(1, "nonsense"), plan_of(2, MONTHLY)], [], [], NOON))
    assert {name.split("-")[1] for name in events} == {"2"}


def test_event_periods_follow_the_time_zone_of_the_rule() -> None:
    tokyo = plan_of(rule="cron: CRON_TZ=Asia/Tokyo 0 5 * * *")
    first = next(schedule_firings(tokyo, NOON))
    assert (first.period_key, first.scheduled_at) == ("2026-11-17", datetime(2026, 11, 16, 20, tzinfo=UTC))
    assert all(each.scheduled_at <= NOON + FEED_FUTURE for each in upcoming_firings([tokyo], [], NOON, MAX_EVENTS))


@pytest.mark.parametrize("name", ["a\r\nBEGIN:VEVENT", "a\rb", "a;b,c\\n", "å" * 120, "a\u2028b\x0b\x85c", "🏠" * 60])
def test_schedule_name_with_any_characters_gives_a_valid_feed(name: str) -> None:
    written = render_calendar([], [replace(run_of("p", NOON), name=name)], [])
    (event,) = events_of(written).values()
    assert all(len(line) <= 75 for line in written.split(b"\r\n"))
    assert b"\r" not in written.replace(b"\r\n", b"")
    assert len(written.decode().splitlines()) == written.count(b"\r\n")
    assert "".join(str(event["SUMMARY"]).split()) == "".join(name.replace("\x85", "").replace("\u2028", "").split())
    assert [str(each["DESCRIPTION"]) for each in event.walk("VALARM")] == [str(event["SUMMARY"])]


def test_a_reminder_at_the_time_itself_and_one_a_week_before_are_alarms_too() -> None:
    for minutes in (0, 1, 10_080):
        known = plan_of(advance_minutes=minutes)
        (event,) = events_of(render_calendar([known], [run_of("p", NOON)], [])).values()
        assert [alarm["TRIGGER"].dt for alarm in event.walk("VALARM")] == [timedelta(minutes=-minutes)]


SHIFTS = """
[{"start": "09:00", "end": "12:00", "customer_name": "Anna Berg", "customer_fingerprint": "c1", "street": "Storgatan",
  "street_number": "12", "postal_code": "", "postal_area": "", "city": "Göteborg", "location_fingerprint": "l1",
  "shift_type": "WORK", "raw_type_label": "Städning"},
 {"start": "22:00", "end": "06:00", "customer_name": "", "customer_fingerprint": "c2", "street": "",
  "street_number": "", "postal_code": "", "postal_area": "", "city": "", "location_fingerprint": "l2",
  "shift_type": "NIGHT", "raw_type_label": ""},
 {"start": "", "end": "", "customer_name": "x", "customer_fingerprint": "", "street": "", "street_number": "",
  "postal_code": "", "postal_area": "", "city": "", "location_fingerprint": "", "shift_type": "", "raw_type_label": ""}]
"""


def know_days(env: ApiEnvironment, user_id: int, shifts: str, *days: date) -> None:
    """Store these shifts for each of a person's days."""
    env.admin.execute("insert into schedule_ingest.capture_session (user_id) values (%s)", [user_id])
    env.admin.execute(
        "insert into schedule_ingest.day_snapshot (user_id, schedule_date, snapshot_payload, source_session_id, events)"
        " select s.user_id, day, %s::jsonb, s.id, 0"
        " from schedule_ingest.capture_session as s, unnest(%s::date[]) as day where s.user_id = %s",
        [shifts, list(days), user_id],
    )


@pytest.mark.breaks_invariants
def test_calendar_feed_contains_the_users_shifts(env: ApiEnvironment, anna: httpx2.Client) -> None:
    env.admin.execute("""update duly.person set telegram_id = 42, zone = 'Europe/Stockholm' where uid = 'anna'""")
    for user in (42, 43):
        know_days(env, user, SHIFTS, date(2026, 11, 17))
    reader, url = subscribed(env, anna)
    events = feed(reader.get(url))
    assert list(events) == ["day-2026-11-17-c1-l1-1@duly", "day-2026-11-17-c2-l2-1@duly"]
    work, night = events.values()
    assert (str(work["SUMMARY"]), str(work["LOCATION"])) == ("Anna Berg", "Storgatan 12, Göteborg")
    assert work.start == datetime(2026, 11, 17, 8, tzinfo=UTC)
    assert (night.end - night.start).total_seconds() == 8 * 3600
    assert reader.get(url, headers={"If-None-Match": reader.get(url).headers["etag"]}).status_code == 304


@pytest.mark.breaks_invariants
@pytest.mark.parametrize("title", ["Avbokad Anna Berg • Städning", "Anna Berg • Inställd", "Cancelled: Anna Berg"])
def test_cancelled_shift_is_a_cancelled_transparent_event(env: ApiEnvironment, anna: httpx2.Client, title: str) -> None:
    env.admin.execute("""update duly.person set telegram_id = 42 where uid = 'anna'""")
    entries = (
        {"start": "09:00", "end": "12:00", "title": "Anna Berg • Städning", "address": "Storgatan 12"},
        {"start": "13:00", "end": "15:00", "title": title, "address": "Storgatan 12"},
    )
    shifts = orjson.dumps([shift_from_entry(entry).document for entry in entries]).decode()
    know_days(env, 42, shifts, date(2026, 11, 17))
    reader, url = subscribed(env, anna)
    (first, takes_place), (second, cancelled) = feed(reader.get(url)).items()
    assert (str(takes_place["STATUS"]), takes_place.get("TRANSP")) == ("CONFIRMED", None)
    assert (str(cancelled["STATUS"]), str(cancelled["TRANSP"])) == ("CANCELLED", "TRANSPARENT")
    assert first.replace("-1@", "-2@") == second  # named after customer and place, as if it took place
    assert str(cancelled["SUMMARY"]) == "Anna Berg"


@pytest.mark.breaks_invariants
def test_calendar_shifts_are_computed_outside_the_event_loop(
    env: ApiEnvironment, anna: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[str]()

    def recorded(local: datetime, zone: ZoneInfo) -> datetime:
        threads.append(threading.current_thread().name)
        return to_instant(local, zone)

    monkeypatch.setattr("duly.apps.scheduler.http.calendar.to_instant", recorded)
    env.admin.execute("""update duly.person set telegram_id = 42 where uid = 'anna'""")
    know_days(env, 42, SHIFTS, NOON.date())
    reader, url = subscribed(env, anna)
    assert len(feed(reader.get(url))) == 2
    assert len(threads) == 4
    assert "api" not in threads


@pytest.mark.parametrize("first", [None, "2026-11-20T00:00:00Z"])
def test_repeated_request_with_a_key_creates_one_schedule(
    first: str | None, env: ApiEnvironment, anna: httpx2.Client
) -> None:
    fields = schedule(expense={**TEMPLATE, "amount": 9.99}, **({"first_run_at": first} if first else {}))
    key = {"Idempotency-Key": "k1"}
    one = created(anna.post(SCHEDULES, json=fields, headers=key))
    move_clock(env.admin, 60)
    again = anna.post(SCHEDULES, json=fields, headers=key)
    assert ok_body(again)["id"] == one["id"]
    assert again.headers["location"] == f"{SCHEDULES}/{one['id']}"
    refused = anna.post(SCHEDULES, json={**fields, "name": "Other"}, headers=key)
    assert "k1" in problem(refused, 409, "KEY_REUSED")
    assert created(env.person("bo").post(SCHEDULES, json=fields, headers=key))["id"] != one["id"]
    assert created(anna.post(SCHEDULES, json=fields))["id"] != one["id"]
    assert len(items(anna.get(SCHEDULES))) == 2


def test_schedules_are_listed_in_pages_oldest_first(env: ApiEnvironment, anna: httpx2.Client) -> None:
    keys = [created(anna.post(SCHEDULES, json=schedule(name=f"S{nth}")))["id"] for nth in range(4)]
    created(env.person("bo").post(SCHEDULES, json=schedule()))
    page = ok_body(anna.get(SCHEDULES, params={"limit": 3}))
    assert [each["id"] for each in page["items"]] == keys[:3]
    assert "firings" not in page["items"][0]
    assert [each["id"] for each in items(anna.get(SCHEDULES, params={"next": page["next"]}))] == keys[3:]
    ok_body(anna.post(f"{SCHEDULES}/{keys[1]}/pause"))
    assert [each["id"] for each in items(anna.get(SCHEDULES, params={"status": "paused"}))] == [keys[1]]


def test_second_manual_firing_within_a_minute_returns_the_first_run(env: ApiEnvironment, anna: httpx2.Client) -> None:
    at = f"{SCHEDULES}/{created(anna.post(SCHEDULES, json=schedule()))['id']}"
    now = env.admin.execute("select duly.clock()").fetchall()[0][0]
    move_clock(env.admin, 60 - now.second)  # a minute has just begun
    first = created(anna.post(f"{at}/fire"))
    assert ok_body(anna.post(f"{at}/fire")) == first


def test_runs_are_listed_by_schedule_state_and_time_in_pages(env: ApiEnvironment, anna: httpx2.Client) -> None:
    one = created(anna.post(SCHEDULES, json=schedule(catch_up="all")))["id"]
    two = created(anna.post(SCHEDULES, json=schedule(rule="cron: 45 12 * * *")))["id"]
    env.turn()
    env.turn(3 * 86400)
    every = items(anna.get(RUNS))
    assert len(every) == 8
    times = [each["scheduled_at"] for each in every]
    assert times == sorted(times, reverse=True)
    assert {each["job_id"] for each in items(anna.get(RUNS, params={"job_id": one}))} == {one}
    skipped = items(anna.get(RUNS, params={"status": "skipped"}))
    assert {(each["job_id"], each["reason"]) for each in skipped} == {(two, "missed: a later one is due")}
    within = {"from": "2026-11-17T12:30:00Z", "to": "2026-11-18T12:30:00Z"}
    assert [each["period_key"] for each in items(anna.get(RUNS, params=within))] == ["2026-11-17", "2026-11-17"]
    page = ok_body(anna.get(RUNS, params={"limit": 5}))
    rest = items(anna.get(RUNS, params={"limit": 5, "next": page["next"]}))
    assert [each["id"] for each in [*page["items"], *rest]] == [each["id"] for each in every]
    assert items(env.person("bo").get(RUNS)) == []


def test_run_response_contains_reminders_receipts_and_timeline(env: ApiEnvironment, anna: httpx2.Client) -> None:
    run = sent_run(env, anna, expense=TEMPLATE)
    created(answered(anna, run["id"], "snooze", "first", minutes=30))
    receipt = created(answered(anna, run["id"], "complete", "second"))
    run_document = ok_body(anna.get(f"{RUNS}/{run['id']}"))
    assert (run_document["name"], run_document["status"], run_document["period_key"]) == (
        "Rent",
        "confirmed",
        "2026-11-16",
    )
    assert [each["payload"]["channel"] for each in run_document["reminders"]] == ["telegram"]
    assert [each["action"] for each in run_document["receipts"]] == ["snooze", "complete"]
    assert run_document["receipts"][1] == receipt
    log = items(anna.get(f"{RUNS}/{run['id']}/timeline"))
    assert [each["next_status"] for each in log] == ["pending", "sent", "snoozed", "confirmed"]
    assert [each["seq"] for each in log] == [1, 2, 3, 4]
    page = ok_body(anna.get(f"{RUNS}/{run['id']}/timeline", params={"limit": 3}))
    assert items(anna.get(f"{RUNS}/{run['id']}/timeline", params={"next": page["next"]})) == log[3:]


def test_reversal_of_a_booked_expense_once(env: ApiEnvironment, anna: httpx2.Client) -> None:
    run = sent_run(env, anna, expense=TEMPLATE)
    at = f"{RUNS}/{run['id']}/reverse-expense"
    assert "nothing was booked" in problem(anna.post(at), 409, "NOTHING_TO_REVERSE")
    booked = created(answered(anna, run["id"]))["expense"]["id"]
    entry = created(anna.post(at))
    assert (entry["amount"], entry["reverses"]) == ("-9.99", booked)
    assert ok_body(anna.post(at)) == entry
    assert [each["amount"] for each in items(anna.get(EXPENSES))] == ["9.99", "-9.99"]
    assert ok_body(anna.get(f"{RUNS}/{run['id']}"))["status"] == "confirmed"


def test_reversal_is_refused_after_its_time_limit(env: ApiEnvironment, anna: httpx2.Client) -> None:
    run = sent_run(env, anna, expense=TEMPLATE)
    created(answered(anna, run["id"]))
    move_clock(env.admin, 30)
    settings = Settings(DULY_SCHEDULER_REVERSAL_SECONDS=20)  # type: ignore[call-arg]
    app = build_app(settings, make_conninfo(env.database, user=Names().api), object())  # type: ignore[arg-type]
    with running(app) as address, client_for(address) as short_reversal_client:
        short_reversal_client.headers["Authorization"] = anna.headers["Authorization"]
        problem(short_reversal_client.post(f"{RUNS}/{run['id']}/reverse-expense"), 409, "NOTHING_TO_REVERSE")
    move_clock(env.admin, 540)
    created(anna.post(f"{RUNS}/{run['id']}/reverse-expense"))
    second = sent_run(env, anna, rule="cron: 0 13 * * *", expense=TEMPLATE)
    created(answered(anna, second["id"]))
    move_clock(env.admin, 601)
    problem(anna.post(f"{RUNS}/{second['id']}/reverse-expense"), 409, "NOTHING_TO_REVERSE")


def test_expenses_are_listed_by_time_in_pages(env: ApiEnvironment, anna: httpx2.Client) -> None:
    created(anna.post(SCHEDULES, json=schedule(expense=TEMPLATE)))
    for _ in range(3):
        env.turn(86400)
        (run,) = items(anna.get(RUNS, params={"status": "sent"}))
        created(answered(anna, run["id"]))
    every = items(anna.get(EXPENSES))
    assert [each["occurred_at"][:10] for each in every] == ["2026-11-17", "2026-11-18", "2026-11-19"]
    page = ok_body(anna.get(EXPENSES, params={"limit": 2}))
    assert items(anna.get(EXPENSES, params={"next": page["next"]})) == every[2:]
    within = {"from": "2026-11-18T00:00:00Z", "to": "2026-11-19T00:00:00Z"}
    assert items(anna.get(EXPENSES, params=within)) == every[1:2]
    assert items(env.person("bo").get(EXPENSES)) == []


def id_routes(job: int, run: int) -> list[tuple[str, str, Json | None]]:
    """Yield every route with the id of a schedule or a run."""
    answer = {"job_run_id": run, "action": "complete", "idempotency_key": str(uuid4())}
    return [
        ("GET", f"{SCHEDULES}/{job}", None),
        ("PATCH", f"{SCHEDULES}/{job}", {"name": "Mine", "expense": None}),
        *(("POST", f"{SCHEDULES}/{job}/{verb}", None) for verb in ("pause", "resume", "archive", "fire")),
        ("GET", f"{RUNS}/{run}", None),
        ("GET", f"{RUNS}/{run}/timeline", None),
        ("POST", f"{RUNS}/{run}/reverse-expense", None),
        ("POST", ANSWERS, answer),
    ]


def test_schedules_and_runs_of_another_user_are_not_found(env: ApiEnvironment, anna: httpx2.Client) -> None:
    run = sent_run(env, anna, expense=TEMPLATE)
    before = ok_body(anna.get(f"{SCHEDULES}/{run['job_id']}"))
    bo = env.person("bo")
    for (verb, path, body), (_, nowhere, nothing) in zip(
        id_routes(run["job_id"], run["id"]), id_routes(NOWHERE, NOWHERE), strict=True
    ):
        detail = problem(bo.request(verb, path, json=body), 404, "NOT_FOUND")
        unknown = problem(bo.request(verb, nowhere, json=nothing), 404, "NOT_FOUND")
        number = run["job_id"] if path.startswith(SCHEDULES) else run["id"]
        assert detail == unknown.replace(str(NOWHERE), str(number))
    assert ok_body(anna.get(f"{SCHEDULES}/{run['job_id']}")) == before
    assert ok_body(anna.get(f"{RUNS}/{run['id']}"))["status"] == "sent"
    assert items(bo.get(RUNS, params={"job_id": run["job_id"]})) == []


def every_route() -> list[tuple[str, str, Json | None, str]]:
    """Yield every route with the scope it needs."""
    lists = [(SCHEDULES, None), (RUNS, None), (f"{RUNS}/upcoming", None), (EXPENSES, None)]
    writes = [("POST", SCHEDULES, schedule()), ("POST", CALENDAR, None), ("DELETE", CALENDAR, None)]
    reads: list[tuple[str, str, Json | None]] = [("GET", path, body) for path, body in lists]
    return [
        (verb, path, body, "scheduler:read" if verb == "GET" else "scheduler:write")
        for verb, path, body in [*reads, *writes, *id_routes(1, 1)]
    ]


def test_every_route_requires_a_key_its_scope_and_a_user(env: ApiEnvironment) -> None:
    reader, writer = env.person("anna", BOTH[:1]), env.person("bo", BOTH[1:])
    org, anonymous = env.org(), env.anonymous()
    for verb, path, body, scope in every_route():
        wrong = writer if scope == "scheduler:read" else reader
        assert scope in problem(wrong.request(verb, path, json=body), 403, "FORBIDDEN")
        assert "belong to a person" in problem(org.request(verb, path, json=body), 403, "FORBIDDEN")
        problem(anonymous.request(verb, path, json=body), 401, "UNAUTHORIZED")


def test_only_an_administrator_may_act_for_another_user(env: ApiEnvironment, anna: httpx2.Client) -> None:
    admin_client = env.org(["admin"])
    created(admin_client.post(SCHEDULES, json=schedule(), headers={"Duly-User": "anna"}))
    assert len(items(anna.get(SCHEDULES))) == 1
    problem(admin_client.get(SCHEDULES, headers={"Duly-User": "who"}), 404, "NOT_FOUND")
    env.person("bo")
    problem(anna.get(SCHEDULES, headers={"Duly-User": "bo"}), 403, "FORBIDDEN")


def test_calendar_event_keeps_its_uid_when_its_firing_becomes_a_run(env: ApiEnvironment, anna: httpx2.Client) -> None:
    job = created(anna.post(SCHEDULES, json=schedule(advance_minutes=15, description="The flat; now")))["id"]
    reader, url = subscribed(env, anna)
    before = feed(reader.get(url))
    name = f"schedule-{job}-2026-11-16@duly"
    assert len(before) == 90
    assert next(iter(before)) == name
    env.turn()
    assert [run["period_key"] for run in items(anna.get(RUNS))] == ["2026-11-16"]
    after = feed(reader.get(url))
    assert after.keys() == before.keys()
    for events in (before, after):
        event = events[name]
        assert (str(event["SUMMARY"]), str(event["DESCRIPTION"])) == ("Rent", "The flat; now")
        assert event["DTSTART"].dt == datetime(2026, 11, 16, 12, 30, tzinfo=UTC)
        assert (str(event["STATUS"]), event["SEQUENCE"]) == ("CONFIRMED", 0)
        (alarm,) = event.walk("VALARM")
        assert (str(alarm["ACTION"]), alarm["TRIGGER"].dt) == ("DISPLAY", timedelta(minutes=-15))


def test_skipped_or_cancelled_run_is_a_cancelled_event(env: ApiEnvironment, anna: httpx2.Client) -> None:
    job = created(anna.post(SCHEDULES, json=schedule()))["id"]
    reader, url = subscribed(env, anna)
    for action, status in {"complete": "CONFIRMED", "skip": "CANCELLED", "cancel": "CANCELLED"}.items():
        env.turn(86400)
        (run,) = items(anna.get(RUNS, params={"status": "sent"}))
        created(answered(anna, run["id"], action))
        event = feed(reader.get(url))[f"schedule-{job}-{run['period_key']}@duly"]
        assert (str(event["STATUS"]), event["SEQUENCE"], event.walk("VALARM")) == (status, 1, [])


def test_feed_contains_open_and_recent_runs_and_firings_of_active_schedules(
    env: ApiEnvironment, anna: httpx2.Client
) -> None:
    run = sent_run(env, anna)
    monthly = created(anna.post(SCHEDULES, json=schedule(rule=MONTHLY)))["id"]
    created(env.person("bo").post(SCHEDULES, json=schedule()))
    reader, url = subscribed(env, anna)
    uid_prefix = f"schedule-{run['job_id']}-"
    ok_body(anna.post(f"{SCHEDULES}/{run['job_id']}/pause"))
    assert set(feed(reader.get(url))) == {
        f"{uid_prefix}2026-11-16@duly",
        *(f"schedule-{monthly}-{month}@duly" for month in ("2026-12", "2027-01", "2027-02")),
    }
    move_clock(env.admin, 31 * 86400)
    assert not any(name.startswith(uid_prefix) for name in feed(reader.get(url)))


def test_only_the_hash_of_a_calendar_url_is_stored_and_each_user_has_one(
    env: ApiEnvironment, anna: httpx2.Client
) -> None:
    created(anna.post(SCHEDULES, json=schedule()))
    reader, url = subscribed(env, anna)
    _, other = subscribed(env, env.person("bo"))
    assert len(feed(reader.get(url))) == 90
    assert feed(reader.get(other)) == {}
    kept = env.admin.execute("select c::text from duly.calendars as c").fetchall()
    assert len(kept) == 2
    assert url.removeprefix("/ics/") not in str(kept)
    assert ok_body(anna.delete(CALENDAR)) == {"revoked": True}
    assert feed(reader.get(other)) == {}


@pytest.mark.breaks_invariants
def test_calendar_reads_each_day_of_its_range_once(env: ApiEnvironment, anna: httpx2.Client) -> None:
    env.admin.execute("""update duly.person set telegram_id = 42 where uid = 'anna'""")
    days = [NOON.date() + timedelta(days=nth) for nth in range(-40, 101)]
    know_days(env, 42, SHIFTS, *days)
    reader, url = subscribed(env, anna)
    starts = [event.start for name, event in feed(reader.get(url)).items() if "-c1-" in name]
    assert [at.date() for at in starts] == days[10:131]
