"""`duly schedule`: make schedules, look at them and at their runs, answer; rules in words, and the times they mean."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal
from uuid import uuid4

from duly.accounts import service as people
from duly.apps.scheduler import parse_rule, service
from duly.apps.scheduler.explain import explain
from duly.apps.scheduler.model import (
    Action,
    Answer,
    CatchUp,
    ExpenseTemplate,
    NewSchedule,
    Run,
    RunStatus,
    Schedule,
    Status,
)
from duly.apps.scheduler.plan import next_firings
from duly.apps.scheduler.seed import SAMPLE_UID, seed
from duly.apps.scheduler.wallclock import parse_zone
from duly.cli.asking import as_api, as_owner
from duly.cli.shown import on_one_line, outcome_of, print_table, tell_explanation, tell_fields, tell_page, to_json
from duly.cli.timeline import tell_timeline
from duly.cli.whose import get_person, owner_of
from duly.db.pool import Pool
from duly.errors import AlreadyAnswered, InvalidArgument
from duly.formatting import as_called
from duly.outcomes import Creation
from duly.paging import MAX_ROWS, Page
from duly.settings import load_settings

__all__ = [
    "Booking",
    "add_schedule",
    "answer_run",
    "edit_schedule",
    "explain_run",
    "fire_schedule",
    "instant",
    "list_missed",
    "list_runs",
    "list_schedules",
    "list_upcoming",
    "move_schedule",
    "run_next",
    "seed_sample",
    "show_schedule",
    "show_timeline",
    "undo_answer",
]

FIRINGS_OF_A_NEW_ONE, FIRINGS_SHOWN = 3, 5


@dataclass(frozen=True)
class Booking:
    """What was said about an entry in the books."""

    amount: str | None = None
    currency: str | None = None
    category: str | None = None
    merchant: str | None = None
    note: str | None = None

    @property
    def given(self) -> Mapping[str, str]:
        """What of it was said."""
        return {name: value for name, value in asdict(self).items() if value is not None}


# Schedules ------------------------------------------------------------------------------------------------------------


def add_schedule(
    uid: str, wanted: Mapping[str, Any], first_run_at: str | None, booking: Booking, key: str | None, as_json: bool
) -> None:
    """Make a schedule."""
    first_at = instant(first_run_at, "--first-run-at") if first_run_at else datetime.now(UTC)

    async def question(pool: Pool) -> Creation[Schedule]:
        person = await get_person(pool, uid)
        expense = template_of(booking.given, {"currency": person.currency})
        given: dict[str, Any] = {**wanted, "catch_up": CatchUp(wanted["catch_up"])}
        new = NewSchedule(**given, first_run_at=first_at, expense=expense)
        return await service.add_schedule(pool, person.id, new, key, begins_now=first_run_at is None)

    made = as_api(question)
    tell_schedule(made.row, FIRINGS_OF_A_NEW_ONE, as_json, outcome=outcome_of(made))


def edit_schedule(
    job_id: int,
    changes: Mapping[str, Any],
    first_run_at: str | None,
    booking: Booking,
    no_expense: bool,
    as_json: bool,
) -> None:
    """Change what is given of a schedule."""
    wanted: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    if first_run_at is not None:
        wanted["first_run_at"] = instant(first_run_at, "--first-run-at")
    if "catch_up" in wanted:
        wanted["catch_up"] = CatchUp(wanted["catch_up"])
    if no_expense and booking.given:
        raise InvalidArgument(f"--no-expense and --{next(iter(booking.given))}: say one of the two")
    if not wanted and not booking.given and not no_expense:
        raise InvalidArgument("say what is to change, for example --name, --rule, --channel, --amount or --no-expense")

    async def question(pool: Pool) -> Schedule:
        expense: ExpenseTemplate | Literal["none"] | None = "none" if no_expense else None
        if booking.given:
            before = await service.get_schedule(pool, None, job_id)
            known = before.expense or {"currency": (await get_person(pool, before.uid)).currency}
            expense = template_of(booking.given, known)
        return await service.change_schedule(pool, None, job_id, wanted, expense)

    tell_schedule(as_api(question), FIRINGS_OF_A_NEW_ONE, as_json, outcome="changed")


def list_schedules(uid: str | None, status: str | None, limit: int, place: str | None, as_json: bool) -> None:
    """Show a page of schedules, and where the next begins."""
    of_status = Status(status) if status else None

    async def question(pool: Pool) -> Page[Schedule]:
        return await service.list_schedules(pool, await owner_of(pool, uid), status=of_status, place=place, limit=limit)

    tell_page(as_api(question), ("id", "uid", "status", "name", "rule", "channel", "next_at"), as_json)


def show_schedule(job_id: int, as_json: bool) -> None:
    """Show a schedule, its next firings and its open runs."""

    async def question(pool: Pool) -> tuple[Schedule, Sequence[Run]]:
        schedule = await service.get_schedule(pool, None, job_id)
        found: list[Run] = []
        for status in (each for each in RunStatus if each.is_open):
            found += (await service.list_runs(pool, None, job_id=job_id, status=status, limit=MAX_ROWS)).items
        return schedule, sorted(found, key=lambda run: (run.scheduled_at, run.id))

    schedule, runs = as_api(question)
    tell_schedule(schedule, FIRINGS_SHOWN, as_json, open_runs=runs)


def move_schedule(job_id: int, to: str, as_json: bool) -> None:
    """Pause, resume or archive a schedule."""
    schedule = as_api(lambda pool: service.move_schedule(pool, None, job_id, Status(to)))
    words = f"{schedule.status:9} {schedule.id}  {on_one_line(schedule.name)}"
    print(to_json(asdict(schedule)) if as_json else words)


def fire_schedule(job_id: int, as_json: bool) -> None:
    """Make a run besides the rule."""
    made = as_api(lambda pool: service.fire_schedule(pool, None, job_id))
    outcome, run = outcome_of(made), made.row
    words = f"{outcome:9} run {run.id} of {on_one_line(run.name)}, {run.period_key}"
    if as_json:
        print(to_json({"outcome": outcome, **asdict(run)}))
    else:
        print(words)


def seed_sample(as_json: bool) -> None:
    """Make the contract's sample, or say that it is there."""

    async def question(pool: Pool) -> tuple[bool, Creation[Schedule]]:
        person = await people.find_person(pool, SAMPLE_UID)
        is_known = person is not None
        if person is None:
            person = (await people.create_user(pool, SAMPLE_UID)).row
        return is_known, await seed(pool, person.id, datetime.now(UTC))

    was_known, made = as_owner(question)
    outcome = outcome_of(made)
    if as_json:
        who = "existing" if was_known else "created"
        print(to_json({"outcome": outcome, "user": {"outcome": who, "uid": SAMPLE_UID}, "schedule": asdict(made.row)}))
        return
    print(f"{'existing' if was_known else 'created':9} person {SAMPLE_UID}")
    print(f"{outcome:9} schedule {made.row.id}  {made.row.name}, {made.row.rule}")
    if was_known and outcome == "existing":
        print("          nothing was changed")


# Runs -----------------------------------------------------------------------------------------------------------------


def list_runs(
    job_id: int | None, uid: str | None, status: str | None, limit: int, place: str | None, as_json: bool
) -> None:
    """Show a page of runs, and where the next begins."""
    of_status = RunStatus(status) if status else None

    async def question(pool: Pool) -> Page[Run]:
        owner = await owner_of(pool, uid)
        if job_id is not None:
            await service.get_schedule(pool, owner, job_id)  # or there is none
        return await service.list_runs(pool, owner, job_id=job_id, status=of_status, place=place, limit=limit)

    tell_page(
        as_api(question), ("id", "job_id", "name", "period_key", "scheduled_at", "status", "sent_at", "reason"), as_json
    )


def list_missed(job_id: int, limit: int, cursor: str | None, as_json: bool) -> None:
    """Show missed periods that have no run."""
    page = as_api(lambda pool: service.list_missed(pool, None, job_id, cursor=cursor, limit=limit))
    tell_page(page, ("scheduled_at", "period_key", "reason"), as_json)


def list_upcoming(uid: str | None, limit: int, as_json: bool) -> None:
    """Show what is coming."""

    async def question(pool: Pool) -> Sequence[Any]:
        return await service.list_upcoming(pool, await owner_of(pool, uid), limit=limit)

    columns = ("scheduled_at", "remind_at", "job_id", "name", "channel", "job_run_id", "period_key", "status")
    tell_page(Page(as_api(question), None), columns, as_json)


def answer_run(run_id: int, action: str, key: str | None, minutes: int | None, booking: Booking, as_json: bool) -> None:
    """Answer a run; who was answered before is told the first receipt, and that is a refusal."""
    given: dict[str, Any] = {**booking.given, **({"minutes": minutes} if minutes is not None else {})}
    answer = Answer(Action(action), key if key is not None else str(uuid4()), given)
    try:
        made = as_api(lambda pool: service.answer_run(pool, None, run_id, answer))
    except AlreadyAnswered as refusal:
        told = refusal.receipt or {}
        if as_json:
            print(to_json({"error": {"code": refusal.code, "message": str(refusal)}, "receipt": told}))
        else:
            print(f"duly: {as_called(str(refusal))}", file=sys.stderr)
            tell_fields(told)
        sys.exit(refusal.exit_status)
    outcome = outcome_of(made)
    if as_json:
        print(to_json({"outcome": outcome, **asdict(made.row)}))
        return
    print(f"{outcome:17} {made.row.action} of run {made.row.job_run_id}, {made.row.period_key}")
    tell_fields(asdict(made.row))


def undo_answer(run_id: int, as_json: bool) -> None:
    """Take back what was booked for a run."""
    seconds = load_settings().scheduler_undo_seconds
    made = as_api(lambda pool: service.undo_answer(pool, None, run_id, seconds))
    outcome = outcome_of(made)
    if as_json:
        print(to_json({"outcome": outcome, **asdict(made.row)}))
        return
    print(f"{outcome:17} entry {made.row.id} takes back entry {made.row.reverses}")
    tell_fields(asdict(made.row))


def show_timeline(run_id: int, as_json: bool) -> None:
    """Show what happened to a run."""
    tell_timeline(
        lambda pool, place: service.list_transitions(pool, None, run_id, place=place, limit=MAX_ROWS), as_json
    )


def explain_run(run_id: int, as_json: bool) -> None:
    """Say why a run is where it is."""
    zone = UTC if as_json else None
    tell_explanation(as_api(lambda pool: explain(pool, None, run_id, zone=zone)), as_json)


# Rules ----------------------------------------------------------------------------------------------------------------


def run_next(text: str, zone: str, first: str | None, count: int, as_json: bool) -> None:
    """Show the next times of a rule."""
    rule, users = parse_rule(text), parse_zone("--zone", zone)
    start = instant(first) if first else datetime.now(UTC)
    here = rule.zone_for(users)
    grain = rule.grain(start, users)
    found = [
        {"period": rule.period(at, grain, users), **told_firing(at, here.key)}
        for at in islice(rule.occurrences(start, users), count)
    ]
    if as_json:
        print(
            to_json(
                {"rule": text, "says": rule.sentence(start, users), "zone": here.key, "grain": grain, "next": found}
            )
        )
        return
    print(rule.sentence(start, users))
    print_firings(here.key, found)


def instant(text: str, place: str = "--first") -> datetime:
    """A time as it was written; without a zone it is UTC."""
    try:
        at = datetime.fromisoformat(text)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidArgument(f"{place} {text}: must be a time such as 2026-01-31T10:00") from None


def told_firing(at: datetime, zone: str) -> dict[str, str]:
    """An instant, in a zone and in UTC."""
    local = at.astimezone(parse_zone("zone", zone))
    return {"local": local.isoformat(timespec="minutes"), "utc": at.strftime("%Y-%m-%dT%H:%MZ")}


# Within ---------------------------------------------------------------------------------------------------------------


def print_firings(zone: str, firings: Sequence[Mapping[str, str]]) -> None:
    """The times of a rule in its zone and in UTC; once, where that is its zone."""
    names = {"period": "period", "local": zone, "utc": "UTC"}
    shown = [name for name in (firings[0] if firings else names) if not (name == "local" and zone == "UTC")]
    print_table([names[name] for name in shown], [[each[name] for name in shown] for each in firings])


def template_of(given: Mapping[str, Any], known: Mapping[str, Any]) -> ExpenseTemplate | None:
    """What is to be booked: what was said, and for the rest what is known; None when nothing was said."""
    if not given:
        return None
    whole = {**known, **given}
    if "amount" not in whole:
        raise InvalidArgument(
            f"--{next(iter(given))} without --amount: say what is to be booked, such as --amount 9.99"
        )
    return ExpenseTemplate(**whole)


def tell_schedule(
    schedule: Schedule,
    several: int,
    as_json: bool,
    *,
    outcome: str | None = None,
    open_runs: Sequence[Run] | None = None,
) -> None:
    """A schedule, whole: its rule in words, its next firings, and the runs that are open."""
    says, told = words_of(schedule, several)
    if as_json:
        more = {"open_runs": [asdict(run) for run in open_runs]} if open_runs is not None else {}
        who = {"outcome": outcome} if outcome else {}
        print(to_json({**who, **asdict(schedule), "says": says, "next": told, **more}))
        return
    if outcome:
        print(f"{outcome:17} schedule {schedule.id}")
    tell_fields(asdict(schedule))
    print(f"{'says':17} {on_one_line(says)}")
    print()
    if told:
        print_firings(schedule.zone, told)
    else:
        print("it fires no more" if schedule.status is Status.ACTIVE else f"it is {schedule.status}: nothing fires")
    if open_runs:
        print()
        columns = ("id", "period_key", "scheduled_at", "status", "remind_at", "sent_at")
        print_table(columns, [[getattr(run, column) for column in columns] for run in open_runs])


def words_of(schedule: Schedule, several: int) -> tuple[str, list[dict[str, str]]]:
    """The rule in words, and its next firings; a rule that somebody wrote past us may have neither."""
    try:
        says = parse_rule(schedule.rule).sentence(schedule.first_run_at, parse_zone("zone", schedule.zone))
        if schedule.status is not Status.ACTIVE:
            return says, []
        firings = next_firings(schedule.rule, schedule.first_run_at, schedule.zone, datetime.now(UTC), several)
        return says, [told_firing(at, schedule.zone) for at in firings]
    except InvalidArgument as error:
        return f"cannot be read: {error}", []
