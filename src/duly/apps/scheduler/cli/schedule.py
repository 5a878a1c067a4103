"""`duly schedule`: create, list and change schedules; schedule_runs.py holds the commands about their runs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import typer

from duly.accounts import service as accounts
from duly.apps.scheduler import service
from duly.apps.scheduler.cli import schedule_runs
from duly.apps.scheduler.cli.schedule_runs import Category, Merchant, Note, ScheduleId, to_document
from duly.apps.scheduler.model import (
    MAX_ADVANCE_MINUTES,
    CatchUp,
    ExpenseTemplate,
    NewSchedule,
    Run,
    RunStatus,
    Schedule,
    ScheduleStatus,
)
from duly.apps.scheduler.planning import RuleDescription, describe_rule
from duly.apps.scheduler.rule import parse_rule
from duly.apps.scheduler.seed import SAMPLE_UID, seed
from duly.apps.scheduler.wallclock import parse_zone
from duly.cli.database_call import call_as_api, call_as_owner
from duly.cli.options import Cursor, Json, Limit, OnlyUser, new_group
from duly.cli.output import creation_outcome, print_fields, print_page, print_table, single_line, to_json
from duly.cli.owners import find_owner_id
from duly.cli.times import parse_time
from duly.db.clock import get_current_time
from duly.db.pool import Pool
from duly.errors import InvalidArgument
from duly.outcomes import Creation
from duly.paging import MAX_ROWS, Page

app = new_group("Recurring reminders: schedules, their runs and the answers.")
app.add_typer(schedule_runs.app)

FIRINGS_AFTER_CHANGE, FIRINGS_IN_DETAILS = 3, 5

StatusName = Literal["active", "paused", "archived"]
ChannelName = Literal["apprise", "console", "telegram", "webhook"]
CatchUpName = Literal["latest", "all", "none"]
Description = Annotated[str | None, typer.Option(help="A longer description.")]
FirstRunAt = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="The earliest time it fires, ISO 8601; without a zone: local time."),
]
Amount = Annotated[str | None, typer.Option(help="The expense booked when a run is confirmed, such as 9.99.")]
Currency = Annotated[str | None, typer.Option(help="Currency of the amount, such as EUR. Default: that of the user.")]
CHANNEL_HELP = "The channel of its reminders. Without a bot, those for telegram are printed on the console."
CATCH_UP_HELP = "Which periods missed while no worker ran get a reminder; all: at most 100. Those of a pause never do."
ADVANCE_HELP = "Minutes between reminder and due time, at most a week."
RULE_HELP = "`cron:` and five fields, or JSON with every, at and more."


@app.command("add")
def add_schedule(
    name: Annotated[str, typer.Argument(help="Its name.")],
    user: Annotated[str, typer.Option("--user", metavar="UID", help="The user to remind.")],
    rule: Annotated[str, typer.Option(help=RULE_HELP)],
    first_run_at: FirstRunAt = None,
    description: Description = None,
    advance: Annotated[int, typer.Option(min=0, max=MAX_ADVANCE_MINUTES, metavar="MIN", help=ADVANCE_HELP)] = 0,
    channel: Annotated[ChannelName, typer.Option(help=CHANNEL_HELP)] = "telegram",
    catch_up: Annotated[CatchUpName, typer.Option(help=CATCH_UP_HELP)] = "latest",
    amount: Amount = None,
    currency: Currency = None,
    category: Category = None,
    merchant: Merchant = None,
    note: Note = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: adding the same schedule again returns the first.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Add a schedule; print its rule as a sentence and its next times. Without --first-run-at it starts now.

    Example: duly schedule add Rent --user anna --rule 'cron: 0 10 1 * *' --advance 60 --amount 950 --category home
    """
    first_at = parse_time("--first-run-at", first_run_at)
    expense_fields = given_fields(amount=amount, currency=currency, category=category, merchant=merchant, note=note)

    async def add(pool: Pool) -> tuple[Creation[Schedule], datetime]:
        owner = await accounts.require_person(pool, user)
        new = NewSchedule(
            name=name,
            rule=rule,
            first_run_at=first_at,
            description=description,
            advance_minutes=advance,
            channel=channel,
            catch_up=CatchUp(catch_up),
            expense=build_template(expense_fields, {"currency": owner.currency}),
        )
        owner_id = service.require_user_id(owner)
        return await service.create_schedule(pool, owner_id, new, key), await get_current_time(pool)

    creation, now = call_as_api(add)
    print_schedule(creation.row, now, FIRINGS_AFTER_CHANGE, as_json, outcome=creation_outcome(creation))


@app.command("edit")
def edit_schedule(
    schedule: ScheduleId,
    name: Annotated[str | None, typer.Option(help="Its name.")] = None,
    rule: Annotated[str | None, typer.Option(help=RULE_HELP)] = None,
    first_run_at: FirstRunAt = None,
    description: Description = None,
    advance: Annotated[
        int | None, typer.Option(min=0, max=MAX_ADVANCE_MINUTES, metavar="MIN", help=ADVANCE_HELP)
    ] = None,
    channel: Annotated[ChannelName | None, typer.Option(help=CHANNEL_HELP)] = None,
    catch_up: Annotated[CatchUpName | None, typer.Option(help=CATCH_UP_HELP)] = None,
    amount: Amount = None,
    currency: Currency = None,
    category: Category = None,
    merchant: Merchant = None,
    note: Note = None,
    no_expense: Annotated[bool, typer.Option("--no-expense", help="Book no expenses any more.")] = False,
    as_json: Json = False,
) -> None:
    """Change a schedule; options that are not given keep their value. A new rule applies from its next time on.

    Example: duly schedule edit 7 --rule 'cron: 0 9 1 * *' --channel console
    """
    changes = given_fields(
        name=name,
        rule=rule,
        description=description,
        advance_minutes=advance,
        channel=channel,
        catch_up=CatchUp(catch_up) if catch_up else None,
        first_run_at=parse_time("--first-run-at", first_run_at),
    )
    expense_fields = given_fields(amount=amount, currency=currency, category=category, merchant=merchant, note=note)
    if no_expense and expense_fields:
        raise InvalidArgument(f"--no-expense and --{next(iter(expense_fields))}: give one of the two")
    if not changes and not expense_fields and not no_expense:
        raise InvalidArgument("nothing to change: give for example --name, --rule, --channel, --amount or --no-expense")

    async def edit(pool: Pool) -> tuple[Schedule, datetime]:
        expense: ExpenseTemplate | Literal["none"] | None = "none" if no_expense else None
        if expense_fields:
            before = await service.get_schedule(pool, None, schedule)
            defaults = before.expense or {"currency": (await accounts.require_person(pool, before.uid)).currency}
            expense = build_template(expense_fields, defaults)
        return await service.change_schedule(pool, None, schedule, changes, expense), await get_current_time(pool)

    print_schedule(*call_as_api(edit), FIRINGS_AFTER_CHANGE, as_json, outcome="changed")


@app.command("list")
def list_schedules(
    user: OnlyUser = None,
    status: Annotated[StatusName | None, typer.Option(help="Only this status.")] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """List schedules, the oldest first.

    Example: duly schedule list --user anna --status active
    """
    only_status = ScheduleStatus(status) if status else None

    async def fetch(pool: Pool) -> Page[Schedule]:
        owner_id = await find_owner_id(pool, user)
        return await service.list_schedules(pool, owner_id, status=only_status, cursor=cursor, limit=limit)

    print_page(call_as_api(fetch), ("id", "uid", "status", "name", "rule", "channel", "next_at"), as_json)


@app.command("show")
def show_schedule(schedule: ScheduleId, as_json: Json = False) -> None:
    """Show a schedule, its next times and its open runs.

    Example: duly schedule show 7
    """

    async def fetch(pool: Pool) -> tuple[Schedule, Sequence[Run], datetime]:
        found = await service.get_schedule(pool, None, schedule)
        runs: list[Run] = []
        for status in (each for each in RunStatus if each.is_open):
            page = await service.list_runs(pool, None, schedule_id=schedule, status=status, limit=MAX_ROWS)
            runs += page.items
        return found, sorted(runs, key=lambda run: (run.scheduled_at, run.id)), await get_current_time(pool)

    found, runs, now = call_as_api(fetch)
    print_schedule(found, now, FIRINGS_IN_DETAILS, as_json, open_runs=runs)


@app.command("next")
def show_next(
    rule: Annotated[str, typer.Argument(help=RULE_HELP)],
    zone: Annotated[
        str | None, typer.Option(help="The user's zone, and that of --first; a rule may have its own. Default: UTC.")
    ] = None,
    first: Annotated[
        str | None,
        typer.Option(help="The earliest time, ISO 8601; without a zone: that of --zone, or local time. Default: now."),
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many times to print.")] = 5,
    as_json: Json = False,
) -> None:
    """Print a rule as a sentence, and its next times in its zone and in UTC with the names of their periods.

    Example: duly schedule next 'cron: 0 10 1 * *' --zone Europe/Stockholm
    """
    parsed, user_zone = parse_rule(rule), parse_zone("--zone", "UTC" if zone is None else zone)
    start = parse_time("--first", first, None if zone is None else user_zone) or datetime.now(UTC)
    rule_zone = parsed.zone_for(user_zone)
    period_unit = parsed.period_unit(start, user_zone)
    sentence = parsed.sentence(start, user_zone)
    firings = [
        format_firing(parsed.period_key(at, period_unit, user_zone), at, rule_zone)
        for at in islice(parsed.firing_times(start, user_zone), count)
    ]
    if as_json:
        print(
            to_json(
                {
                    "rule": rule,
                    "rule_in_words": sentence,
                    "zone": rule_zone.key,
                    "period_unit": period_unit,
                    "next": firings,
                }
            )
        )
        return
    print(sentence)
    print_firings(rule_zone, firings)


@app.command("pause")
def pause_schedule(schedule: ScheduleId, as_json: Json = False) -> None:
    """Pause a schedule: no new runs; runs whose reminder is not due yet are deleted.

    Example: duly schedule pause 7
    """
    set_status(schedule, ScheduleStatus.PAUSED, as_json)


@app.command("resume")
def resume_schedule(schedule: ScheduleId, as_json: Json = False) -> None:
    """Resume a paused schedule; periods missed during the pause are skipped.

    Example: duly schedule resume 7
    """
    set_status(schedule, ScheduleStatus.ACTIVE, as_json)


@app.command("archive")
def archive_schedule(schedule: ScheduleId, as_json: Json = False) -> None:
    """End a schedule for good: its open runs are cancelled, its history stays.

    Example: duly schedule archive 7
    """
    set_status(schedule, ScheduleStatus.ARCHIVED, as_json)


def set_status(schedule_id: int, status: ScheduleStatus, as_json: bool) -> None:
    """Change the status of a schedule, and print it."""
    schedule = call_as_api(lambda pool: service.set_schedule_status(pool, None, schedule_id, status))
    line = f"{schedule.status:9} {schedule.id}  {single_line(schedule.name)}"
    print(to_json(asdict(schedule)) if as_json else line)


@app.command("seed")
def seed_sample(as_json: Json = False) -> None:
    """Create the sample of the contract: the user `sample` and a monthly schedule. Running it again changes nothing.

    Example: duly schedule seed
    """

    async def create(pool: Pool) -> tuple[bool, Creation[Schedule]]:
        person = await accounts.find_person(pool, SAMPLE_UID)
        is_known = person is not None
        if person is None:
            person = (await accounts.create_person(pool, SAMPLE_UID)).row
        return is_known, await seed(pool, service.require_user_id(person), datetime.now(UTC))

    was_known, creation = call_as_owner(create)
    outcome, user_outcome = creation_outcome(creation), "existing" if was_known else "created"
    schedule = creation.row
    if as_json:
        user = {"outcome": user_outcome, "uid": SAMPLE_UID}
        print(to_json({"outcome": outcome, "user": user, "schedule": asdict(schedule)}))
        return
    print(f"{user_outcome:9} user {SAMPLE_UID}")
    print(f"{outcome:9} schedule {schedule.id}  {schedule.name}, {schedule.rule}")
    if was_known and outcome == "existing":
        print("          nothing was changed")


# Helpers --------------------------------------------------------------------------------------------------------------


def given_fields(**fields: Any) -> dict[str, Any]:
    """Return the fields whose option was given."""
    return {name: value for name, value in fields.items() if value is not None}


def build_template(fields: Mapping[str, Any], defaults: Mapping[str, Any]) -> ExpenseTemplate | None:
    """Build the expense to book from the given fields and defaults; None if no field is given."""
    if not fields:
        return None
    merged = {**defaults, **fields}
    if "amount" not in merged:
        raise InvalidArgument(f"--{next(iter(fields))} without --amount: add the amount to book, such as --amount 9.99")
    return ExpenseTemplate(**merged)


def print_schedule(
    schedule: Schedule,
    now: datetime,
    count: int,
    as_json: bool,
    *,
    outcome: str | None = None,
    open_runs: Sequence[Run] | None = None,
) -> None:
    """Print a schedule, its rule as a sentence, its next times, and its open runs if they are given."""
    try:
        rule = describe_rule(schedule, now, count)
    except InvalidArgument as error:  # written by another program
        rule = RuleDescription(f"invalid rule: {error}", ZoneInfo("UTC"), ())
    firings = [format_firing(each.period_key, each.scheduled_at, rule.zone) for each in rule.next_firings]
    if as_json:
        first = {"outcome": outcome} if outcome else {}
        last = {"open_runs": [to_document(run) for run in open_runs]} if open_runs is not None else {}
        print(to_json({**first, **asdict(schedule), "rule_in_words": rule.sentence, "next": firings, **last}))
        return
    if outcome:
        print(f"{outcome:17} schedule {schedule.id}")
    print_fields(asdict(schedule))
    print(f"{'in words':17} {single_line(rule.sentence)}")
    print()
    if firings:
        print_firings(rule.zone, firings)
    elif schedule.status is ScheduleStatus.ACTIVE:
        print("it fires no more")
    else:
        print(f"it is {schedule.status}: nothing fires")
    if open_runs:
        print()
        columns = ("id", "period_key", "scheduled_at", "status", "remind_at", "sent_at")
        print_table(columns, [[getattr(run, column) for column in columns] for run in open_runs])


def format_firing(period: str, at: datetime, zone: ZoneInfo) -> dict[str, str]:
    """Return the period of a firing, and its time in a zone and in UTC."""
    local = at.astimezone(zone).isoformat(timespec="minutes")
    return {"period": period, "local": local, "utc": at.strftime("%Y-%m-%dT%H:%MZ")}


def print_firings(zone: ZoneInfo, firings: Sequence[Mapping[str, str]]) -> None:
    """Print periods, and times in a zone and in UTC, in one column if that is the same."""
    headers = {"period": "period", "local": zone.key, "utc": "UTC"}
    if zone.key == "UTC":
        del headers["local"]
    print_table(list(headers.values()), [[firing[name] for name in headers] for firing in firings])
