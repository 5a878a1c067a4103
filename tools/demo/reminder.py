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


async def tell_reminder(stage: Stage) -> None:
    """Make a schedule, let its time come, answer the reminder, answer it again."""
    schedule = await add_schedule(stage)
    assert schedule.next_at, "it has not fired yet"
    stage.tell.say(
        f"Anna pays {COST.amount} {COST.currency} for music on the 1st of every month, and wants to be reminded "
        f"at 10:00, {schedule.zone}. So she has a schedule:"
    )
    stage.tell.command("schedule", "show", str(schedule.id))
    await stage.pass_time(schedule.next_at - EARLY, "The month passes")
    run = await until_planned(stage, schedule)
    stage.tell.say(f"Ten minutes before its time there is a run for the period {run.period_key}; it waits.")
    await stage.pass_time(run.scheduled_at, "Ten minutes pass")
    message = await stage.until_sent("reminder.due", lambda: why(stage, run))
    stage.tell.say(f"The reminder is due, and appears on the console, which is the worker's output ({stage.log}):")
    stage.tell.quote(stage.printed(message.id))
    await answer(stage, run, message)
    entries = await service.list_expenses(stage.pool, stage.anna.id)
    stage.tell.say(f"In her books there is {pluralize(len(entries.items), 'entry', 'entries')}.")
    stage.tell.command("expenses", "list", "--user", stage.anna.uid)
    stage.tell.command("schedule", "timeline", str(run.id))


async def add_schedule(stage: Stage) -> Schedule:
    """Anna's schedule, with what is to be booked."""
    now = await stage.now()
    made = await service.add_schedule(
        stage.pool, stage.anna.id, NewSchedule(NAME, RULE, now, channel="console", expense=COST)
    )

    async def look() -> Schedule | None:
        schedule = await service.get_schedule(stage.pool, stage.anna.id, made.row.id)
        return schedule if schedule.next_at else None

    async def nothing() -> str:
        return f"the schedule {made.row.id} has no next firing: {made.row.plan_error or 'nobody planned it'}"

    return await stage.until("the schedule is planned", look, nothing)


async def until_planned(stage: Stage, schedule: Schedule) -> Run:
    """The first run of the schedule."""

    async def look() -> Run | None:
        runs = await service.list_runs(stage.pool, stage.anna.id, schedule_id=schedule.id)
        return next(iter(runs.items), None)

    async def nothing() -> str:
        known = await service.get_schedule(stage.pool, stage.anna.id, schedule.id)
        return f"the schedule {known.id} is {known.status} and fires next at {known.next_at}"

    return await stage.until("the schedule's run is made", look, nothing)


async def answer(stage: Stage, run: Run, message: StoredMessage) -> None:
    """Answer by the button Done, tap it again, and try another answer."""
    done = button_of(message, Action.COMPLETE)
    tap = Answer(Action.COMPLETE, done["key"])
    receipt = (await service.answer_run(stage.pool, stage.anna.id, run.id, tap)).row
    booked = receipt.expense or {}
    stage.tell.say(
        f"She taps {done['label']}. In one transaction the run is confirmed and {booked.get('amount')} "
        f"{booked.get('currency')} are booked."
    )
    again = await service.answer_run(stage.pool, stage.anna.id, run.id, tap)
    assert isinstance(again, Existing), "one tap is one answer, however often it comes"
    stage.tell.say(
        "The tap comes a second time, as taps do: she is told that it was answered, and gets the same receipt."
    )
    stage.tell.command("schedule", "answer", str(run.id), tap.action, "--key", tap.key)
    try:
        await service.answer_run(stage.pool, stage.anna.id, run.id, Answer(Action.SKIP, "another-device"))
    except AlreadyAnswered as refusal:
        stage.tell.say("On another device she says Skip, too late. The answer:")
        stage.tell.quote(str(refusal))


def button_of(message: StoredMessage, action: Action) -> Mapping[str, Any]:
    """The button that answers so."""
    return next(each for each in message.payload["buttons"] if each["action"] == action)


async def why(stage: Stage, run: Run) -> str:
    """Where the run is, and why."""
    found = await explain(stage.pool, stage.anna.id, run.id, zone=None)
    return f"run {run.id} is {found.status}. {found.sentence}"
