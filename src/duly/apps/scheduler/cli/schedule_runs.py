"""The commands of `duly schedule` about runs: list, fire, answer and explain them, and reverse their expenses."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC
from typing import Annotated, Any, Literal
from uuid import uuid4

import typer

from duly.apps.scheduler import service
from duly.apps.scheduler.explain import explain
from duly.apps.scheduler.model import MAX_ID, MAX_SNOOZE_MINUTES, Action, Answer, Run, RunStatus, parse_receipt
from duly.apps.scheduler.reasons import describe_reason
from duly.cli.database_call import call_as_api
from duly.cli.options import Cursor, Json, Limit, OnlyUser
from duly.cli.output import creation_outcome, print_explanation, print_fields, print_page, single_line, to_json
from duly.cli.owners import find_owner_id
from duly.cli.timeline import print_timeline
from duly.db.pool import Pool
from duly.errors import AlreadyAnswered, InvalidArgument
from duly.formatting import rewrite_commands
from duly.paging import MAX_ROWS, Page
from duly.settings import load_settings

app = typer.Typer()

RunStatusName = Literal["pending", "sent", "snoozed", "confirmed", "skipped", "cancelled"]
ActionName = Literal["complete", "skip", "snooze", "cancel"]
ScheduleId = Annotated[int, typer.Argument(min=1, max=MAX_ID, metavar="ID", help="Id of the schedule.")]
RunId = Annotated[int, typer.Argument(min=1, max=MAX_ID, metavar="RUN", help="Id of the run.")]
Category = Annotated[str | None, typer.Option(help="Category of the expense.")]
Merchant = Annotated[str | None, typer.Option(help="Recipient of the payment.")]
Note = Annotated[str | None, typer.Option(help="A note on the expense.")]


@app.command("fire")
def fire_schedule(schedule: ScheduleId, as_json: Json = False) -> None:
    """Create a run now, besides those of its rule; a second call in the same minute returns the first run.

    Example: duly schedule fire 7
    """
    creation = call_as_api(lambda pool: service.fire_schedule(pool, None, schedule))
    outcome, run = creation_outcome(creation), creation.row
    line = f"{outcome:9} run {run.id} of {single_line(run.name)}, {run.period_key}"
    print(to_json({"outcome": outcome, **to_document(run)}) if as_json else line)


@app.command("runs")
def list_runs(
    schedule: Annotated[
        int | None, typer.Argument(min=1, max=MAX_ID, metavar="ID", help="Only runs of this schedule.")
    ] = None,
    user: OnlyUser = None,
    status: Annotated[RunStatusName | None, typer.Option(help="Only this status.")] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """List runs, the latest first.

    Example: duly schedule runs 7 --status sent
    """
    only_status = RunStatus(status) if status else None

    async def fetch(pool: Pool) -> Page[Run]:
        owner_id = await find_owner_id(pool, user)
        if schedule is not None:
            await service.get_schedule(pool, owner_id, schedule)  # raises NotFound
        return await service.list_runs(
            pool, owner_id, schedule_id=schedule, status=only_status, cursor=cursor, limit=limit
        )

    columns = ("id", "schedule_id", "name", "period_key", "scheduled_at", "status", "sent_at", "reason")
    print_page(call_as_api(fetch), columns, as_json, to_document=to_document)


@app.command("missed")
def list_missed(schedule: ScheduleId, limit: Limit = 20, cursor: Cursor = None, as_json: Json = False) -> None:
    """List missed periods that have no run, the earliest first: see duly schedule runs for the others.

    Of more than a hundred that were missed at once, only the latest hundred get a run; and none that were missed before
    the rule was changed.

    Example: duly schedule missed 7
    """
    page = call_as_api(lambda pool: service.list_missed(pool, None, schedule, cursor=cursor, limit=limit))
    print_page(page, ("scheduled_at", "period_key", "reason"), as_json, to_document=to_document)


@app.command("upcoming")
def list_upcoming(user: OnlyUser = None, limit: Limit = 20, as_json: Json = False) -> None:
    """List open runs, and of each active schedule the next time that has no run yet, the soonest first.

    Example: duly schedule upcoming --user anna
    """

    async def fetch(pool: Pool) -> Sequence[Any]:
        return await service.list_upcoming(pool, await find_owner_id(pool, user), limit=limit)

    columns = ("scheduled_at", "remind_at", "schedule_id", "name", "channel", "job_run_id", "period_key", "status")
    print_page(Page(call_as_api(fetch), None), columns, as_json, to_document=to_document)


@app.command("answer")
def answer_run(
    run: RunId,
    action: Annotated[ActionName, typer.Argument(metavar="ACTION", help="complete, skip, snooze or cancel.")],
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: the same answer again returns the first. Default: a new one.")
    ] = None,
    minutes: Annotated[
        int | None, typer.Option(min=1, max=MAX_SNOOZE_MINUTES, help="With snooze: how many minutes. Default: 60.")
    ] = None,
    amount: Annotated[
        str | None, typer.Option(help="With complete: the amount paid, if it differs from that of the schedule.")
    ] = None,
    currency: Annotated[str | None, typer.Option(help="Currency of this amount, such as EUR.")] = None,
    category: Category = None,
    merchant: Merchant = None,
    note: Note = None,
    as_json: Json = False,
) -> None:
    """Answer a run. A run has one final answer: another one is refused, and the receipt of the first is printed.

    --amount, --currency, --category, --merchant and --note change the expense that complete books.

    Example: duly schedule answer 31 complete --amount 12.50 --note 'with a tip'
    """
    options = {"amount": amount, "currency": currency, "category": category, "merchant": merchant, "note": note}
    given = {name: value for name, value in {**options, "minutes": minutes}.items() if value is not None}
    try:
        answer = Answer(Action(action), key if key is not None else str(uuid4()), given)
        creation = call_as_api(lambda pool: service.answer_run(pool, None, run, answer))
    except AlreadyAnswered as error:
        receipt = to_document(parse_receipt(error.receipt)) if error.receipt else {}
        if as_json:
            print(to_json({"error": {"code": error.code, "message": str(error)}, "receipt": receipt}))
        else:
            print(f"duly: {rewrite_commands(str(error))}", file=sys.stderr)
            print_fields(receipt)
        sys.exit(error.exit_status)
    except InvalidArgument as error:
        raise InvalidArgument(str(error).replace("payload.", "--")) from None
    outcome, receipt = creation_outcome(creation), creation.row
    if as_json:
        print(to_json({"outcome": outcome, **to_document(receipt)}))
        return
    print(f"{outcome:17} {receipt.action} of run {receipt.job_run_id}, {receipt.period_key}")
    print_fields(to_document(receipt))


@app.command("reverse-expense")
def reverse_expense(run: RunId, as_json: Json = False) -> None:
    """Reverse the expense of a run by a second expense, within DULY_SCHEDULER_REVERSAL_SECONDS of the answer.

    The setting is read where this command runs, which may differ from that of the server.

    Example: duly schedule reverse-expense 31
    """
    seconds = load_settings().scheduler_reversal_seconds
    creation = call_as_api(lambda pool: service.reverse_expense(pool, None, run, seconds))
    outcome, expense = creation_outcome(creation), creation.row
    if as_json:
        print(to_json({"outcome": outcome, **to_document(expense)}))
        return
    print(f"{outcome:17} expense {expense.id} reverses expense {expense.reverses}")
    print_fields(to_document(expense))


@app.command("timeline")
def show_timeline(run: RunId, as_json: Json = False) -> None:
    """List the events of a run, in order.

    Example: duly schedule timeline 31
    """
    print_timeline(
        lambda pool, cursor: service.list_transitions(pool, None, run, cursor=cursor, limit=MAX_ROWS), as_json
    )


@app.command("explain")
def explain_run(run: RunId, as_json: Json = False) -> None:
    """Explain in one sentence why a run has no reminder, or no answer.

    Example: duly schedule explain 31
    """
    zone = UTC if as_json else None
    print_explanation(call_as_api(lambda pool: explain(pool, None, run, zone=zone)), as_json)


def to_document(row: Any) -> dict[str, Any]:
    """Convert a row to JSON: a schedule's id is `job_id`, as in the tables and the HTTP API, and reasons are texts."""
    fields = {"job_id" if name == "schedule_id" else name: value for name, value in asdict(row).items()}
    return {**fields, "reason": describe_reason(fields["reason"])} if fields.get("reason") else fields
