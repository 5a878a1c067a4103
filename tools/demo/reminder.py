"""A schedule fires, its reminder is answered, and the expense is booked once."""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from duly.apps.scheduler import service
from duly.apps.scheduler.explain import explain
from duly.apps.scheduler.model import Action, Answer, ExpenseTemplate, NewSchedule, Run, Schedule
from duly.errors import AlreadyAnswered
from duly.formatting import pluralize
from duly.outbox.service import StoredMessage
from duly.outcomes import Existing
from tools.demo.stage import Stage

NAME = "Music subscription"
RULE = "cron: 0 10 1 * *"
COST = ExpenseTemplate(Decimal(119), "SEK", category="subscriptions", merchant="Spelverket")
EARLY = timedelta(minutes=10)


async def run_reminder_chapter(stage: Stage) -> None:
    """Create a schedule, move the clock until it fires, answer the reminder, and answer it again."""
    schedule = await add_schedule(stage)
    assert schedule.next_at, "it has not fired yet"
    stage.narrator.say(
        f"Anna pays {COST.amount} {COST.currency} for music on the 1st of every month, and wants to be reminded "
        f"at 10:00, {schedule.zone}. So she has a schedule:"
    )
    stage.narrator.command("schedule", "show", str(schedule.id))
    await stage.pass_time(schedule.next_at - EARLY, "The month passes")
    run = await until_planned(stage, schedule)
    stage.narrator.say(f"Ten minutes before its time there is a pending run for the period {run.period_key}.")
    await stage.pass_time(run.scheduled_at, "Ten minutes pass")
    message = await stage.until_sent("reminder.due", lambda: describe(stage, run))
    stage.narrator.say(f"The reminder is due, and appears on the console, which is the worker's output ({stage.log}):")
    stage.narrator.quote(stage.printed(message.id))
    await answer(stage, run, message)
    entries = await service.list_expenses(stage.pool, stage.anna.id)
    stage.narrator.say(f"In her books there is {pluralize(len(entries.items), 'entry', 'entries')}.")
    stage.narrator.command("expenses", "list", "--user", stage.anna.uid)
    stage.narrator.command("schedule", "timeline", str(run.id))


async def add_schedule(stage: Stage) -> Schedule:
    """Add a schedule with an expense template for Anna; return it once it is planned."""
    now = await stage.now()
    made = await service.create_schedule(
        stage.pool, stage.anna.id, NewSchedule(NAME, RULE, now, channel="console", expense=COST)
    )

    async def fetch() -> Schedule | None:
        schedule = await service.get_schedule(stage.pool, stage.anna.id, made.row.id)
        return schedule if schedule.next_at else None

    async def describe_missing() -> str:
        return f"the schedule {made.row.id} has no next firing: {made.row.plan_error or 'it was not planned'}"

    return await stage.until("the schedule is planned", fetch, describe_missing)


async def until_planned(stage: Stage, schedule: Schedule) -> Run:
    """Return the first run of the schedule once it exists."""

    async def fetch() -> Run | None:
        runs = await service.list_runs(stage.pool, stage.anna.id, schedule_id=schedule.id)
        return next(iter(runs.items), None)

    async def describe_missing() -> str:
        known = await service.get_schedule(stage.pool, stage.anna.id, schedule.id)
        return f"the schedule {known.id} is {known.status} and fires next at {known.next_at}"

    return await stage.until("the run of the schedule is created", fetch, describe_missing)


async def answer(stage: Stage, run: Run, message: StoredMessage) -> None:
    """Answer with the button Done, tap it again, and try a different answer."""
    done = find_button(message, Action.COMPLETE)
    tap = Answer(Action.COMPLETE, done["key"])
    receipt = (await service.answer_run(stage.pool, stage.anna.id, run.id, tap)).row
    booked = receipt.expense or {}
    stage.narrator.say(
        f"She taps {done['label']}. In one transaction the run is confirmed and {booked.get('amount')} "
        f"{booked.get('currency')} are booked."
    )
    again = await service.answer_run(stage.pool, stage.anna.id, run.id, tap)
    assert isinstance(again, Existing), "a repeated tap is the same answer"
    stage.narrator.say(
        "The same tap arrives a second time: she sees that it was answered already, and gets the same receipt."
    )
    stage.narrator.command("schedule", "answer", str(run.id), tap.action, "--key", tap.key)
    try:
        await service.answer_run(stage.pool, stage.anna.id, run.id, Answer(Action.SKIP, "another-device"))
    except AlreadyAnswered as refusal:
        stage.narrator.say("On another device she taps Skip, too late. The response:")
        stage.narrator.quote(str(refusal))


def find_button(message: StoredMessage, action: Action) -> Mapping[str, Any]:
    """Return the button of this action."""
    return next(each for each in message.payload["buttons"] if each["action"] == action)


async def describe(stage: Stage, run: Run) -> str:
    """Describe the state of the run and the reason for it."""
    found = await explain(stage.pool, stage.anna.id, run.id, zone=None)
    return f"run {run.id} is {found.status}. {found.sentence}"
