"""`duly ingest`: give a day, look at sessions and days, compare, rebuild."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import UTC, date
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.text import Text

from duly import extras
from duly.apps.ingest import service
from duly.apps.ingest.canonical import observe
from duly.apps.ingest.diff import Change, EventType
from duly.apps.ingest.explain import House, explain, result_in_words
from duly.apps.ingest.model import PastEvent, Session
from duly.apps.ingest.notices import sentence_of
from duly.apps.ingest.ocr.engine import EngineName, must_have_engine
from duly.apps.ingest.reading import read_payload
from duly.apps.ingest.shift import FIELDS, Shift, read_shift
from duly.apps.ingest.spelling import read_date
from duly.apps.ingest.states import States
from duly.cli.asking import as_api
from duly.cli.opening import must_have_database
from duly.cli.shown import on_one_line, tell_explanation, tell_fields, tell_page, text_of, to_json
from duly.cli.timeline import tell_timeline
from duly.cli.watching import teller
from duly.cli.whose import telegram_id_of
from duly.db.id_prefix import IdPrefix
from duly.db.pool import Pool
from duly.errors import InvalidArgument, MissingExtra, TooLarge
from duly.explain import Explanation
from duly.formatting import counted
from duly.lease.timeline import Transition
from duly.paging import MAX_ROWS, Page
from duly.settings import Settings, load_settings
from duly.storage import MAX_PHOTO_BYTES, Screenshot, clean_screenshot, open_objects
from duly.wiring import states_of

__all__ = [
    "capture_data",
    "capture_photographs",
    "explain_session",
    "image_in",
    "list_events",
    "list_notifications",
    "list_sessions",
    "list_versions",
    "replay_day",
    "show_day",
    "show_diff",
    "show_session",
    "show_timeline",
]

DID_NOT_SUCCEED = 1
DIFFERS = 1
FIRST_REST_SECONDS = 0.05
MAX_REST_SECONDS = 1.0
FINGERPRINT_SHOWN = 12
SIGNS = {EventType.ADDED: ("+", "green"), EventType.REMOVED: ("-", "red")}
CHANGED = ("~", "yellow")
WAIT_SECONDS = 30.0
WAIT_SECONDS_PER_IMAGE = 60.0
STEPS = ("waiting for a worker", "a worker reads it")
Tell = Callable[[int, str], None]
Give = Callable[[Pool, str, int, Tell], Awaitable[Session]]
Answer = TypeVar("Answer")


# Giving ---------------------------------------------------------------------------------------------------------------


def capture_data(fixture: Path, user: str, wait: float | None, as_json: bool) -> None:
    """Give a day as data, and say what came of it."""
    payload = read_payload(fixture)
    try:
        observe(payload)
    except InvalidArgument as error:
        raise InvalidArgument(f"{fixture}: {error}") from None

    async def give(pool: Pool, schema: str, user_id: int, tell: Tell) -> Session:  # noqa: ARG001
        return await service.create_session(pool, schema, user_id, payload)

    capture(give, 0, user, WAIT_SECONDS if wait is None else wait, as_json)


def capture_photographs(images: Sequence[Path], user: str, wait: float | None, as_json: bool) -> None:
    """Give photographs of a day, and say what came of it."""
    if len(images) > service.MAX_IMAGES:
        raise InvalidArgument(f"{len(images)} photographs: a session takes at most {service.MAX_IMAGES}")
    cleaned = [cleaned_image(path) for path in images]
    settings = load_settings()
    if wait != 0:
        must_read(settings.ocr_engine)
    must_have_database(settings)
    objects = open_objects(settings)

    async def give(pool: Pool, schema: str, user_id: int, tell: Tell) -> Session:
        session = await service.create_session(pool, schema, user_id)
        for nth, image in enumerate(cleaned):
            tell(nth, f"uploading {images[nth].name}")
            await service.add_image(pool, schema, objects, user_id, session.id, image.data, image.kind)
        return await service.close_session(pool, schema, user_id, session.id)

    seconds = WAIT_SECONDS + len(images) * WAIT_SECONDS_PER_IMAGE if wait is None else wait
    capture(give, len(images), user, seconds, as_json)


def must_read(engine: EngineName) -> None:
    """Whoever waits for what a photograph shows has the engine here, or gets it, as its worker does."""
    try:
        must_have_engine(engine, extras.install)
    except MissingExtra as error:
        raise MissingExtra(f"{error}; or, where a worker on another machine reads, do not wait: --wait 0") from None


def cleaned_image(path: Path) -> Screenshot:
    """The photograph in a file, as it is kept."""
    try:
        return clean_screenshot(image_in(path))
    except (InvalidArgument, TooLarge) as error:
        raise type(error)(f"{path}: {error}") from None


def capture(give: Give, images: int, user: str, wait: float, as_json: bool) -> None:
    """Give a day in one way or another, follow it to its end, and say what came of it."""
    settings = load_settings()
    house, schema = house_of(settings), settings.db_schema

    async def question(pool: Pool) -> tuple[Session, str, list[PastEvent]]:
        user_id = await telegram_id_of(pool, user)
        with teller(images + len(STEPS)) as tell:
            session = await give(pool, schema, user_id, tell)
            if not as_json:
                print(f"given     {session.id}", flush=True)
            session = await follow(
                pool, schema, session, house.states, wait, lambda step: tell(images + step, STEPS[step])
            )
        why = (await explain(pool, user_id, session.id, house, zone=None)).sentence
        return session, why, await events_of(pool, schema, session)

    session, why, events = as_api(question)
    is_done, is_failed = session.state == house.states.done, session.state == house.states.failed
    if as_json:
        changes = [told_change(change_of(event), day_of(session)) for event in events]
        print(to_json({**asdict(session), "explanation": why, "changes": changes}))
    elif is_done:
        print(f"done      {on_one_line(result_in_words(session.result))}")
        print_changes([change_of(event) for event in events], day_of(session))
    elif is_failed:
        print(f"failed    {on_one_line(session.error or '')}")
    else:
        print(f"waits     {on_one_line(why)}")
    if wait and not is_done:
        sys.exit(DID_NOT_SUCCEED)


async def follow(
    pool: Pool, schema: str, session: Session, states: States, seconds: float, tell: Callable[[int], None]
) -> Session:
    """Look at a session until it has come to its end, or for so long; tells which step it has come to."""
    deadline, rest = time.monotonic() + seconds, FIRST_REST_SECONDS
    while session.state not in (states.done, states.failed) and (left := deadline - time.monotonic()) > 0:
        tell(int(session.state == states.processing))
        await asyncio.sleep(min(rest, left))
        rest = min(2 * rest, MAX_REST_SECONDS)
        session = await service.get_session(pool, schema, session.user_id, session.id)
    return session


def image_in(path: Path) -> bytes:
    """The bytes of a file, when they are not too many for a photograph."""
    try:
        if path.stat().st_size > MAX_PHOTO_BYTES:
            raise TooLarge(f"the photograph has more than {MAX_PHOTO_BYTES // 1024**2} MiB; make it smaller")
        return path.read_bytes()
    except OSError as error:
        raise InvalidArgument(f"cannot be read: {error.strerror or type(error).__name__}") from None


async def events_of(pool: Pool, schema: str, session: Session) -> list[PastEvent]:
    """The events that a session has written."""
    if not session.result or not session.result.get("events"):
        return []
    return await service.all_events(pool, schema, session.user_id, day_of(session), session.id)


def day_of(session: Session) -> date:
    """The day that a session was about, once it is done."""
    return date.fromisoformat(str((session.result or {})["schedule_date"]))


# Sessions -------------------------------------------------------------------------------------------------------------


def list_sessions(user: str, limit: int, place: str | None, as_json: bool) -> None:
    """Show a page of sessions, and where the next begins."""
    page = ask_about(user, lambda pool, schema, who: service.list_sessions(pool, schema, who, place=place, limit=limit))
    columns = ("id", "state", "created_at", "closed_at", "outcome", "schedule_date", "version", "error")

    def row(session: Session) -> list[object]:
        cells = {**(session.result or {}), **asdict(session)}
        return [cells.get(column) for column in columns]

    tell_page(page, columns, as_json, row=row)


def show_session(given: IdPrefix, as_json: bool) -> None:
    """Show a session and its images."""
    schema = load_settings().db_schema

    async def question(pool: Pool) -> dict[str, Any]:
        key = await service.resolve_id(pool, schema, given)
        session = await service.get_session(pool, schema, None, key)
        images = await service.list_images(pool, schema, None, key)
        return {**asdict(session), "images": [asdict(image) for image in images]}

    found = as_api(question)
    if as_json:
        print(to_json(found))
        return
    images = found.pop("images")
    tell_fields(found)
    for image in images:
        print(f"{'image':17} {image['sequence']}  {image['r2_key']}  {text_of(image['created_at'])}")


def show_timeline(given: IdPrefix, as_json: bool) -> None:
    """Show what happened to a session."""
    schema = load_settings().db_schema

    async def read(pool: Pool, place: str | None) -> Page[Transition]:
        key = await service.resolve_id(pool, schema, given)
        return await service.list_transitions(pool, schema, None, key, place=place, limit=MAX_ROWS)

    tell_timeline(read, as_json)


def explain_session(given: IdPrefix, as_json: bool) -> None:
    """Say why nothing happens to a session."""
    house, zone = house_of(load_settings()), UTC if as_json else None

    async def question(pool: Pool) -> Explanation[Any]:
        return await explain(pool, None, await service.resolve_id(pool, house.schema, given), house, zone=zone)

    tell_explanation(as_api(question), as_json)


# Days -----------------------------------------------------------------------------------------------------------------


def show_day(day: str, user: str, as_json: bool) -> None:
    """Show a day as it is known now."""
    when = checked_day(day)
    found = ask_about(user, lambda pool, schema, who: service.get_day(pool, schema, who, when))
    if as_json:
        print(to_json(asdict(found)))
        return
    version = "without a version" if found.current_version is None else f"version {found.current_version}"
    print(f"{found.schedule_date}  {version}, last looked at {text_of(found.updated_at)}")
    for shift in map(read_shift, found.snapshot_payload):
        print(f"  {line_of(shift)}")


def list_versions(day: str, user: str, limit: int, place: str | None, as_json: bool) -> None:
    """Show a page of versions, and where the next begins."""
    when = checked_day(day)
    page = ask_about(
        user, lambda pool, schema, who: service.list_versions(pool, schema, who, when, place=place, limit=limit)
    )
    tell_page(
        page,
        ("version", "created_at", "session_id", "payload_hash"),
        as_json,
        row=lambda each: (each.version, each.created_at, each.session_id, each.payload_hash[:FINGERPRINT_SHOWN]),
        told=lambda each: {name: value for name, value in asdict(each).items() if name != "payload"},
    )


def show_diff(day: str, before: int, after: int, user: str, as_json: bool) -> None:
    """Show what changed between two versions, in colours on a terminal."""
    when = checked_day(day)
    changes = ask_about(
        user, lambda pool, schema, who: service.compare_versions(pool, schema, who, when, before, after)
    )
    if as_json:
        print(to_json([told_change(change, when) for change in changes]))
        return
    print(f"{when}  version {before} → {after}: {counted(len(changes), 'change', 'changes')}")
    print_changes(changes, when)


def list_events(day: str, user: str, limit: int, place: str | None, as_json: bool) -> None:
    """Show a page of events, and where the next begins."""
    when = checked_day(day)
    page = ask_about(
        user, lambda pool, schema, who: service.list_events(pool, schema, who, when, place=place, limit=limit)
    )
    tell_page(
        page,
        ("seq", "detected_at", "event_type", "in words"),
        as_json,
        row=lambda each: (each.seq, each.detected_at, each.event_type, sentence_of(when, change_of(each))),
    )


def list_notifications(day: str, user: str, limit: int, place: str | None, as_json: bool) -> None:
    """Show a page of messages, and where the next begins."""
    when = checked_day(day)
    page = ask_about(
        user, lambda pool, schema, who: service.list_notifications(pool, schema, who, when, place=place, limit=limit)
    )
    tell_page(
        page,
        ("created_at", "status", "sent_at", "type", "message"),
        as_json,
        row=lambda each: (each.created_at, each.status, each.sent_at, each.notification_type, each.message),
    )


def replay_day(day: str, user: str, as_json: bool) -> None:
    """Rebuild a day from its events; exit 1 when that is another day."""
    when = checked_day(day)
    found = ask_about(user, lambda pool, schema, who: service.replay_day(pool, schema, who, when))
    rebuilt = found.shifts
    if as_json:
        shifts = None if rebuilt is None else [shift.document for shift in rebuilt]
        known = [shift.document for shift in found.known]
        told = {"schedule_date": when, "events": found.events, "is_same": found.is_same}
        print(to_json({**told, "shifts": shifts, "known": known}))
    else:
        events, shifts = counted(found.events, "event", "events"), counted(len(found.known), "shift", "shifts")
        if found.is_same:
            print(f"same      {when}: {events} rebuild the day as it is known, {shifts}")
        elif rebuilt is None:
            print(f"differs   {when}: one of {events} changes a shift that was not there then")
        else:
            print(f"differs   {when}: {events} rebuild {counted(len(rebuilt), 'shift', 'shifts')}, known are {shifts}")
            for sign, style, these, others in (
                ("-", "red", found.known, rebuilt),
                ("+", "green", rebuilt, found.known),
            ):
                for shift in these:
                    if shift not in others:
                        say(sign, style, line_of(shift))
    if not found.is_same:
        sys.exit(DIFFERS)


# Within ---------------------------------------------------------------------------------------------------------------


def ask_about(user: str, question: Callable[[Pool, str, int], Awaitable[Answer]]) -> Answer:
    """Ask about a person's days."""
    schema = load_settings().db_schema

    async def asked(pool: Pool) -> Answer:
        return await question(pool, schema, await telegram_id_of(pool, user))

    return as_api(asked)


def house_of(settings: Settings) -> House:
    """What the settings say of sessions."""
    return House(settings.db_schema, states_of(settings), settings.session_idle_seconds, settings.lease_timeout_seconds)


def checked_day(day: str) -> date:
    """The day that was typed, or a refusal."""
    return read_date("DATE", day)


def change_of(event: PastEvent) -> Change:
    """An event as the change that it tells of."""
    old, new = event.old_value, event.new_value
    return Change(EventType(event.event_type), read_shift(old) if old else None, read_shift(new) if new else None)


def told_change(change: Change, day: date) -> dict[str, object]:
    """A change for programs."""
    return {
        "type": change.type,
        "sentence": sentence_of(day, change),
        "old": change.old.document if change.old else None,
        "new": change.new.document if change.new else None,
    }


def print_changes(changes: Sequence[Change], day: date) -> None:
    """Each change in a sentence; under it, of a shift that stayed, what is different."""
    for change in changes:
        sign, style = SIGNS.get(change.type, CHANGED)
        say(sign, style, on_one_line(sentence_of(day, change)))
        if change.old and change.new:
            for name in FIELDS:
                old, new = getattr(change.old, name), getattr(change.new, name)
                if old != new and not name.endswith("_fingerprint"):
                    say(" ", "dim", f"    {name}: {on_one_line(old or 'nothing')} → {on_one_line(new or 'nothing')}")


def say(sign: str, style: str, words: str) -> None:
    """One line in a colour, where there are colours."""
    Console(highlight=False, soft_wrap=True).print(Text(f"  {sign} {words}", style=style))


def line_of(shift: Shift) -> str:
    """A shift in one line."""
    where = " ".join(filter(None, (shift.street, shift.street_number)))
    place = ", ".join(filter(None, (where, shift.city)))
    words = filter(None, (shift.customer_name, shift.raw_type_label or shift.shift_type.lower(), place))
    return f"{shift.start}\N{EN DASH}{shift.end}  {on_one_line(', '.join(words))}"
