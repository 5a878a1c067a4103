"""What `duly schedule` offers."""

from typing import Annotated, Literal

import typer

__all__ = ["schedule_app"]

schedule_app = typer.Typer(help="What recurs: rules, when they fire, whom they remind.", no_args_is_help=True)

StatusName = Literal["active", "paused", "archived"]
RunStatusName = Literal["pending", "sent", "snoozed", "confirmed", "skipped", "cancelled"]
ActionName = Literal["complete", "skip", "snooze", "cancel"]
ChannelName = Literal["apprise", "console", "telegram", "webhook"]
CatchUpName = Literal["latest", "all", "none"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
Id = Annotated[int, typer.Argument(min=1, max=2**63 - 1, metavar="ID", help="The schedule's id.")]
RunId = Annotated[int, typer.Argument(min=1, max=2**63 - 1, metavar="RUN", help="The run's id.")]
User = Annotated[str | None, typer.Option("--user", metavar="UID", help="Only this person's.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="So many at most.")]
Place = Annotated[str | None, typer.Option(help="Go on here: what the page before gave as next.")]
Description = Annotated[str | None, typer.Option(help="More words to it.")]
FirstRunAt = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="When it may fire first, ISO 8601; a time without a zone is UTC."),
]
Amount = Annotated[str | None, typer.Option(help="What is booked when a run is confirmed, such as 9.99.")]
Currency = Annotated[str | None, typer.Option(help="Of the amount, such as EUR. Default: the person's.")]
Category = Annotated[str | None, typer.Option(help="Of what is booked.")]
Merchant = Annotated[str | None, typer.Option(help="To whom it is paid.")]
Note = Annotated[str | None, typer.Option(help="A note in the books.")]
CHANNEL_HELP = "Where to remind. What goes by telegram appears on the console while no bot is configured."
CATCH_UP_HELP = "Of periods that were missed: which are reminded of."
ADVANCE_HELP = "Remind so many minutes before it, at most a week."
RULE_HELP = "`cron:` and five fields, or JSON with every, at and more."


@schedule_app.command("add")
def schedule_add(
    name: Annotated[str, typer.Argument(help="What it is called.")],
    user: Annotated[str, typer.Option("--user", metavar="UID", help="Whose it is.")],
    rule: Annotated[str, typer.Option(help=RULE_HELP)],
    first_run_at: FirstRunAt = None,
    description: Description = None,
    advance: Annotated[int, typer.Option(min=0, max=10_080, metavar="MIN", help=ADVANCE_HELP)] = 0,
    channel: Annotated[ChannelName, typer.Option(help=CHANNEL_HELP)] = "telegram",
    catch_up: Annotated[CatchUpName, typer.Option(help=CATCH_UP_HELP)] = "latest",
    amount: Amount = None,
    currency: Currency = None,
    category: Category = None,
    merchant: Merchant = None,
    note: Note = None,
    key: Annotated[str | None, typer.Option(help="The same key and request make one schedule.")] = None,
    as_json: Json = False,
) -> None:
    """Make a schedule; say its rule in words, and when it fires next. Without --first-run-at it may fire from now on.

    Example: duly schedule add Rent --user anna --rule 'cron: 0 10 1 * *' --advance 60 --amount 950 --category home
    """
    from duly.cli.schedule import Booking, add_schedule

    wanted = {
        "name": name,
        "rule": rule,
        "description": description,
        "advance_minutes": advance,
        "channel": channel,
        "catch_up": catch_up,
    }
    add_schedule(user, wanted, first_run_at, Booking(amount, currency, category, merchant, note), key, as_json)


@schedule_app.command("edit")
def schedule_edit(
    schedule: Id,
    name: Annotated[str | None, typer.Option(help="What it is called.")] = None,
    rule: Annotated[str | None, typer.Option(help=RULE_HELP)] = None,
    first_run_at: FirstRunAt = None,
    description: Description = None,
    advance: Annotated[int | None, typer.Option(min=0, max=10_080, metavar="MIN", help=ADVANCE_HELP)] = None,
    channel: Annotated[ChannelName | None, typer.Option(help=CHANNEL_HELP)] = None,
    catch_up: Annotated[CatchUpName | None, typer.Option(help=CATCH_UP_HELP)] = None,
    amount: Amount = None,
    currency: Currency = None,
    category: Category = None,
    merchant: Merchant = None,
    note: Note = None,
    no_expense: Annotated[bool, typer.Option("--no-expense", help="Book nothing any more.")] = False,
    as_json: Json = False,
) -> None:
    """Change what is given of a schedule. A changed rule holds from its next firing.

    Example: duly schedule edit 7 --rule 'cron: 0 9 1 * *' --channel console
    """
    from duly.cli.schedule import Booking, edit_schedule

    changes = {
        "name": name,
        "rule": rule,
        "description": description,
        "advance_minutes": advance,
        "channel": channel,
        "catch_up": catch_up,
    }
    booking = Booking(amount, currency, category, merchant, note)
    edit_schedule(schedule, changes, first_run_at, booking, no_expense, as_json)


@schedule_app.command("list")
def schedule_list(
    user: User = None,
    status: Annotated[StatusName | None, typer.Option(help="Only of this status.")] = None,
    limit: Limit = 20,
    place: Place = None,
    as_json: Json = False,
) -> None:
    """Show schedules, the oldest first.

    Example: duly schedule list --user anna --status active
    """
    from duly.cli.schedule import list_schedules

    list_schedules(user, status, limit, place, as_json)


@schedule_app.command("show")
def schedule_show(schedule: Id, as_json: Json = False) -> None:
    """Show a schedule, when it fires next, and which of its runs are open.

    Example: duly schedule show 7
    """
    from duly.cli.schedule import show_schedule

    show_schedule(schedule, as_json)


@schedule_app.command("next")
def next_(
    rule: Annotated[str, typer.Argument(help=RULE_HELP)],
    zone: Annotated[str, typer.Option(help="The person's zone; a rule may have its own.")] = "UTC",
    first: Annotated[
        str | None, typer.Option(help="When it may fire first, ISO 8601; a time without a zone is UTC. Default: now.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many times.")] = 5,
    as_json: Json = False,
) -> None:
    """Say a rule in words, and show when it fires next, in its zone and in UTC, and what each period is called.

    Example: duly schedule next 'cron: 0 10 1 * *' --zone Europe/Stockholm
    """
    from duly.cli.schedule import run_next

    run_next(rule, zone, first, count, as_json)


@schedule_app.command("pause")
def schedule_pause(schedule: Id, as_json: Json = False) -> None:
    """Pause a schedule: nobody is reminded, and what nobody was told of yet is taken back.

    Example: duly schedule pause 7
    """
    from duly.cli.schedule import move_schedule

    move_schedule(schedule, "paused", as_json)


@schedule_app.command("resume")
def schedule_resume(schedule: Id, as_json: Json = False) -> None:
    """Let a paused schedule go on; what it missed is skipped.

    Example: duly schedule resume 7
    """
    from duly.cli.schedule import move_schedule

    move_schedule(schedule, "active", as_json)


@schedule_app.command("archive")
def schedule_archive(schedule: Id, as_json: Json = False) -> None:
    """End a schedule for good: what is open of it is cancelled, what was stays.

    Example: duly schedule archive 7
    """
    from duly.cli.schedule import move_schedule

    move_schedule(schedule, "archived", as_json)


@schedule_app.command("fire")
def schedule_fire(schedule: Id, as_json: Json = False) -> None:
    """Make a run besides the rule, now; in one minute there is only one.

    Example: duly schedule fire 7
    """
    from duly.cli.schedule import fire_schedule

    fire_schedule(schedule, as_json)


@schedule_app.command("runs")
def schedule_runs(
    schedule: Annotated[
        int | None, typer.Argument(min=1, max=2**63 - 1, metavar="ID", help="Of this schedule. Default: of all.")
    ] = None,
    user: User = None,
    status: Annotated[RunStatusName | None, typer.Option(help="Only of this status.")] = None,
    limit: Limit = 20,
    place: Place = None,
    as_json: Json = False,
) -> None:
    """Show runs, the latest first.

    Example: duly schedule runs 7 --status sent
    """
    from duly.cli.schedule import list_runs

    list_runs(schedule, user, status, limit, place, as_json)


@schedule_app.command("missed")
def schedule_missed(schedule: Id, limit: Limit = 20, place: Place = None, as_json: Json = False) -> None:
    """Show missed periods that have no run, because more than a hundred were missed, the earliest first.

    Example: duly schedule missed 7
    """
    from duly.cli.schedule import list_missed

    list_missed(schedule, limit, place, as_json)


@schedule_app.command("upcoming")
def schedule_upcoming(user: User = None, limit: Limit = 20, as_json: Json = False) -> None:
    """Show what is coming: runs that are open, and firings that have no run yet, the soonest first.

    Example: duly schedule upcoming --user anna
    """
    from duly.cli.schedule import list_upcoming

    list_upcoming(user, limit, as_json)


@schedule_app.command("answer")
def schedule_answer(
    run: RunId,
    action: Annotated[ActionName, typer.Argument(metavar="ACTION", help="complete, skip, snooze or cancel.")],
    key: Annotated[str | None, typer.Option(help="The same key is the same answer. Default: a new one.")] = None,
    minutes: Annotated[
        int | None, typer.Option(min=1, max=10_080, help="Snooze for so long. Default: an hour.")
    ] = None,
    amount: Annotated[str | None, typer.Option(help="What was paid, when it was not what the schedule says.")] = None,
    currency: Annotated[str | None, typer.Option(help="Of the amount, such as EUR.")] = None,
    category: Category = None,
    merchant: Merchant = None,
    note: Note = None,
    as_json: Json = False,
) -> None:
    """Answer a run. A run has one answer: a second one is refused, and gets the receipt of the first.

    Example: duly schedule answer 31 complete --amount 12.50 --note 'with a tip'
    """
    from duly.cli.schedule import Booking, answer_run

    answer_run(run, action, key, minutes, Booking(amount, currency, category, merchant, note), as_json)


@schedule_app.command("undo")
def schedule_undo(run: RunId, as_json: Json = False) -> None:
    """Take back what was booked for a run by an entry of its own, while DULY_SCHEDULER_UNDO_SECONDS last.

    Example: duly schedule undo 31
    """
    from duly.cli.schedule import undo_answer

    undo_answer(run, as_json)


@schedule_app.command("timeline")
def schedule_timeline(run: RunId, as_json: Json = False) -> None:
    """Show what happened to a run, in order.

    Example: duly schedule timeline 31
    """
    from duly.cli.schedule import show_timeline

    show_timeline(run, as_json)


@schedule_app.command("explain")
def schedule_explain(run: RunId, as_json: Json = False) -> None:
    """Say in one sentence why nobody was reminded of a run, or has answered it.

    Example: duly schedule explain 31
    """
    from duly.cli.schedule import explain_run

    explain_run(run, as_json)


@schedule_app.command("seed")
def schedule_seed(as_json: Json = False) -> None:
    """Make the contract's sample: the person `sample` and a monthly schedule. Again changes nothing.

    Example: duly schedule seed
    """
    from duly.cli.schedule import seed_sample

    seed_sample(as_json)
