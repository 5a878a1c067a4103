"""The commands of `duly ingest` about one day: its shifts, versions, events and notifications."""

import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Annotated, TypeVar

import typer

from duly.apps.ingest.cli.changes import (
    change_from_event,
    change_to_document,
    format_shift,
    print_change_line,
    print_changes,
)
from duly.apps.ingest.notifications import format_change
from duly.apps.ingest.service import Ingest
from duly.apps.ingest.shift import shift_from_json
from duly.apps.ingest.spelling import parse_date
from duly.cli.database_call import call_as_api
from duly.cli.options import Cursor, Json, Limit
from duly.cli.output import format_value, print_page, to_json
from duly.cli.owners import find_telegram_id
from duly.db.pool import Pool
from duly.formatting import pluralize
from duly.settings import load_settings

app = typer.Typer()

DIFFERS = 1
HASH_LENGTH = 12
Day = Annotated[str, typer.Argument(metavar="DATE", help="The day, such as 2026-02-10.")]
Owner = Annotated[str, typer.Option("--user", metavar="UID|TELEGRAM_ID", help="The user it belongs to.")]
Result = TypeVar("Result")


@app.command("day")
def show_day(day: Day, user: Owner, as_json: Json = False) -> None:
    """Show the current shifts of a day.

    Example: duly ingest day 2026-02-10 --user 42
    """
    parsed = parse_date("DATE", day)
    found = call_for_owner(user, lambda ingest, user_id: ingest.days.get_day(user_id, parsed))
    if as_json:
        print(to_json(asdict(found)))
        return
    version = "no version" if found.current_version is None else f"version {found.current_version}"
    print(f"{found.schedule_date}  {version}, last captured {format_value(found.updated_at)}")
    for shift in map(shift_from_json, found.snapshot_payload):
        print(f"  {format_shift(shift)}")


@app.command("versions")
def list_versions(day: Day, user: Owner, limit: Limit = 20, cursor: Cursor = None, as_json: Json = False) -> None:
    """List the versions of a day, in order.

    Example: duly ingest versions 2026-02-10 --user 42
    """
    parsed = parse_date("DATE", day)
    page = call_for_owner(
        user,
        lambda ingest, user_id: ingest.days.list_versions(user_id, parsed, cursor=cursor, limit=limit),
    )
    print_page(
        page,
        ("version", "created_at", "session_id", "payload_hash"),
        as_json,
        to_row=lambda each: (each.version, each.created_at, each.session_id, each.payload_hash[:HASH_LENGTH]),
        to_document=lambda each: {name: value for name, value in asdict(each).items() if name != "payload"},
    )


@app.command("diff")
def show_diff(
    day: Day,
    before: Annotated[int, typer.Argument(metavar="V1", min=0, max=2**31 - 1, help="The earlier version; 0 is empty.")],
    after: Annotated[int, typer.Argument(metavar="V2", min=0, max=2**31 - 1, help="The later version.")],
    user: Owner,
    as_json: Json = False,
) -> None:
    """Show the changes from one version of a day to another.

    Example: duly ingest diff 2026-02-10 1 2 --user 42
    """
    parsed = parse_date("DATE", day)
    changes = call_for_owner(
        user,
        lambda ingest, user_id: ingest.days.compare_versions(user_id, parsed, before, after),
    )
    if as_json:
        print(to_json([change_to_document(change, parsed) for change in changes]))
        return
    print(f"{parsed}  version {before} → {after}: {pluralize(len(changes), 'change', 'changes')}")
    print_changes(changes, parsed)


@app.command("events")
def list_events(day: Day, user: Owner, limit: Limit = 100, cursor: Cursor = None, as_json: Json = False) -> None:
    """List the changes of a day, shift by shift, in order.

    Example: duly ingest events 2026-02-10 --user 42
    """
    parsed = parse_date("DATE", day)
    page = call_for_owner(
        user,
        lambda ingest, user_id: ingest.days.list_events(user_id, parsed, cursor=cursor, limit=limit),
    )
    print_page(
        page,
        ("seq", "detected_at", "event_type", "sentence"),
        as_json,
        to_row=lambda event: (
            event.seq,
            event.detected_at,
            event.event_type,
            format_change(parsed, change_from_event(event)),
        ),
    )


@app.command("notifications")
def list_notifications(day: Day, user: Owner, limit: Limit = 100, cursor: Cursor = None, as_json: Json = False) -> None:
    """List the notifications about a day, in the order of delivery.

    Example: duly ingest notifications 2026-02-10 --user 42
    """
    parsed = parse_date("DATE", day)
    page = call_for_owner(
        user,
        lambda ingest, user_id: ingest.days.list_notifications(user_id, parsed, cursor=cursor, limit=limit),
    )
    print_page(
        page,
        ("created_at", "status", "sent_at", "type", "message"),
        as_json,
        to_row=lambda each: (each.created_at, each.status, each.sent_at, each.notification_type, each.message),
    )


@app.command("replay")
def replay_day(day: Day, user: Owner, as_json: Json = False) -> None:
    """Rebuild a day from its events and compare it with the stored one; exit 1 if they differ.

    Example: duly ingest replay 2026-02-10 --user 42
    """
    parsed = parse_date("DATE", day)
    replay = call_for_owner(user, lambda ingest, user_id: ingest.days.replay_day(user_id, parsed))
    stored, rebuilt = replay.known, replay.shifts
    if as_json:
        document = {
            "schedule_date": parsed,
            "events": replay.events,
            "is_same": replay.is_same,
            "shifts": None if rebuilt is None else [shift.document for shift in rebuilt],
            "known": [shift.document for shift in stored],
        }
        print(to_json(document))
    else:
        events, shifts = pluralize(replay.events, "event", "events"), pluralize(len(stored), "shift", "shifts")
        if replay.is_same:
            print(f"same      {parsed}: {events} rebuild the stored day, {shifts}")
        elif rebuilt is None:
            print(f"differs   {parsed}: one of {events} changes a shift that did not exist then")
        else:
            found = pluralize(len(rebuilt), "shift", "shifts")
            print(f"differs   {parsed}: {events} rebuild {found}, stored are {shifts}")
            for shift in stored:
                if shift not in rebuilt:
                    print_change_line("-", "red", format_shift(shift))
            for shift in rebuilt:
                if shift not in stored:
                    print_change_line("+", "green", format_shift(shift))
    if not replay.is_same:
        sys.exit(DIFFERS)


def call_for_owner(user: str, function: Callable[[Ingest, int], Awaitable[Result]]) -> Result:
    """Call a function with the operations of ingest and the user's Telegram id."""
    schema = load_settings().db_schema

    async def call(pool: Pool) -> Result:
        return await function(Ingest(pool, schema), await find_telegram_id(pool, user))

    return call_as_api(call)
