"""`duly ingest`: capture days and follow capture sessions; days.py holds the commands about one day."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import UTC, date
from pathlib import Path
from typing import Annotated, Any

import typer

from duly import extras
from duly.apps.ingest.build_work import states_from_settings
from duly.apps.ingest.canonical import canonicalize
from duly.apps.ingest.cli import days, read
from duly.apps.ingest.cli.changes import change_from_event, change_to_document, print_changes
from duly.apps.ingest.cli.days import Owner, call_for_owner
from duly.apps.ingest.cli.read import read_image_file
from duly.apps.ingest.explain import SessionSettings, explain, format_result
from duly.apps.ingest.model import MAX_IMAGES, CaptureSession, ShiftEvent
from duly.apps.ingest.ocr.engine import EngineName, require_engine
from duly.apps.ingest.reading import read_payload
from duly.apps.ingest.service import Ingest, SessionService
from duly.apps.ingest.states import States
from duly.cli.database_call import call_as_api
from duly.cli.existing_database import require_database
from duly.cli.options import Cursor, Json, Limit, id_argument, new_group
from duly.cli.output import format_value, print_explanation, print_fields, print_page, single_line, to_json
from duly.cli.owners import find_telegram_id
from duly.cli.progress import step_progress
from duly.cli.timeline import print_timeline
from duly.db.id_prefix import IdPrefix
from duly.db.pool import Pool
from duly.errors import InvalidArgument, MissingExtra, TooLarge
from duly.explain import Explanation
from duly.lease.timeline import Transition
from duly.paging import MAX_ROWS, Page
from duly.settings import Settings, load_settings
from duly.storage import Screenshot, clean_screenshot, open_object_store

app = new_group("Photographed work schedules: versions, changes and notifications.")
app.add_typer(read.app)
app.add_typer(days.app)

NOT_DONE = 1
FIRST_POLL_SECONDS = 0.05
MAX_POLL_SECONDS = 1.0
WAIT_SECONDS = 30.0
WAIT_SECONDS_PER_IMAGE = 60.0
STEPS = ("waiting for a worker", "processed by a worker")
SessionId = Annotated[IdPrefix, id_argument("session")]
ShowStep = Callable[[int, str], None]
CreateSession = Callable[[SessionService, int, ShowStep], Awaitable[CaptureSession]]


@app.command("capture")
def capture(
    user: Owner,
    images: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[IMAGE]", help="Photographs of one day.", exists=True, dir_okay=False),
    ] = None,
    fixture: Annotated[
        Path | None,
        typer.Option(
            help="Instead of photographs: a JSON file with schedule_date and entries.", exists=True, dir_okay=False
        ),
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=3600,
            help="Seconds to wait for the result; 0 does not wait. Default: 30, and 60 more per photograph.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Capture a day from photographs or data, wait for a worker, and print what changed. Exit 1 if it is not done.

    Example: duly ingest capture morning.png evening.png --user 42
    """
    if bool(images) == bool(fixture):
        raise typer.BadParameter("give either photographs or --fixture")
    if fixture:
        capture_data(fixture, user, wait, as_json)
    else:
        capture_photographs(images or [], user, wait, as_json)


@app.command("list")
def list_sessions(user: Owner, limit: Limit = 20, cursor: Cursor = None, as_json: Json = False) -> None:
    """List a user's capture sessions, the newest first.

    Example: duly ingest list --user 42
    """
    page = call_for_owner(
        user,
        lambda ingest, user_id: ingest.sessions.list_sessions(user_id, cursor=cursor, limit=limit),
    )
    columns = ("id", "state", "created_at", "closed_at", "outcome", "schedule_date", "version", "error")

    def to_row(session: CaptureSession) -> list[object]:
        fields = {**(session.result or {}), **asdict(session)}
        return [fields.get(column) for column in columns]

    print_page(page, columns, as_json, to_row=to_row)


@app.command("show")
def show_session(session: SessionId, as_json: Json = False) -> None:
    """Show a capture session and its images.

    Example: duly ingest show 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """
    schema = load_settings().db_schema

    async def fetch(pool: Pool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        sessions = Ingest(pool, schema).sessions
        session_id = await sessions.resolve_id(session)
        found = await sessions.get_session(None, session_id)
        images = await sessions.list_images(None, session_id)
        return asdict(found), [asdict(image) for image in images]

    fields, images = call_as_api(fetch)
    if as_json:
        print(to_json({**fields, "images": images}))
        return
    print_fields(fields)
    for image in images:
        print(f"{'image':17} {image['sequence']}  {image['r2_key']}  {format_value(image['created_at'])}")


@app.command("timeline")
def show_timeline(session: SessionId, as_json: Json = False) -> None:
    """List the events of a capture session, in order.

    Example: duly ingest timeline 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """
    schema = load_settings().db_schema

    async def fetch_page(pool: Pool, cursor: str | None) -> Page[Transition]:
        sessions = Ingest(pool, schema).sessions
        session_id = await sessions.resolve_id(session)
        return await sessions.list_transitions(None, session_id, cursor=cursor, limit=MAX_ROWS)

    print_timeline(fetch_page, as_json)


@app.command("explain")
def explain_session(session: SessionId, as_json: Json = False) -> None:
    """Explain in one sentence why a capture session waits, or how it ended.

    Example: duly ingest explain 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """
    settings, zone = session_settings(load_settings()), UTC if as_json else None

    async def find_reason(pool: Pool) -> Explanation[Any]:
        session_id = await Ingest(pool, settings.schema).sessions.resolve_id(session)
        return await explain(pool, None, session_id, settings, zone=zone)

    print_explanation(call_as_api(find_reason), as_json)


# Capturing ------------------------------------------------------------------------------------------------------------


def capture_data(fixture: Path, user: str, wait: float | None, as_json: bool) -> None:
    """Capture a day from a JSON file."""
    payload = read_payload(fixture)
    try:
        canonicalize(payload)
    except InvalidArgument as error:
        raise InvalidArgument(f"{fixture}: {error}") from None

    async def create(sessions: SessionService, user_id: int, _: ShowStep) -> CaptureSession:
        return await sessions.create_session(user_id, payload)

    run_capture(create, 0, user, WAIT_SECONDS if wait is None else wait, as_json)


def capture_photographs(images: Sequence[Path], user: str, wait: float | None, as_json: bool) -> None:
    """Capture a day from photographs."""
    if len(images) > MAX_IMAGES:
        raise InvalidArgument(f"{len(images)} photographs: a session takes at most {MAX_IMAGES}")
    cleaned = [clean_image(path) for path in images]
    settings = load_settings()
    if wait != 0:
        install_engine(settings.ocr_engine)
    require_database(settings)
    objects = open_object_store(settings)

    async def create(sessions: SessionService, user_id: int, show_step: ShowStep) -> CaptureSession:
        session = await sessions.create_session(user_id)
        for nth, image in enumerate(cleaned):
            show_step(nth, f"uploading {images[nth].name}")
            await sessions.add_image(objects, user_id, session.id, image.data, image.suffix)
        return await sessions.close_session(user_id, session.id)

    seconds = WAIT_SECONDS + len(images) * WAIT_SECONDS_PER_IMAGE if wait is None else wait
    run_capture(create, len(images), user, seconds, as_json)


def install_engine(engine: EngineName) -> None:
    """Install the OCR engine on this machine, where the worker that is waited for usually runs too."""
    try:
        require_engine(engine, extras.install)
    except MissingExtra as error:
        raise MissingExtra(f"{error}; or, where a worker on another machine reads, do not wait: --wait 0") from None


def clean_image(path: Path) -> Screenshot:
    """Read a photograph and convert it to the form in which it is stored."""
    try:
        return clean_screenshot(read_image_file(path))
    except (InvalidArgument, TooLarge) as error:
        raise type(error)(f"{path}: {error}") from None


def run_capture(create: CreateSession, images: int, user: str, wait_seconds: float, as_json: bool) -> None:
    """Create a session, follow it to its end, and print its result."""
    loaded = load_settings()
    settings, schema = session_settings(loaded), loaded.db_schema

    async def run(pool: Pool) -> tuple[CaptureSession, str, list[ShiftEvent]]:
        ingest, user_id = Ingest(pool, schema), await find_telegram_id(pool, user)
        with step_progress(images + len(STEPS)) as show_step:
            session = await create(ingest.sessions, user_id, show_step)
            if not as_json:
                print(f"created   {session.id}", flush=True)
            session = await follow(
                ingest.sessions,
                session,
                settings.states,
                wait_seconds,
                lambda step: show_step(images + step, STEPS[step]),
            )
        explanation = await explain(pool, user_id, session.id, settings, zone=None)
        return session, explanation.sentence, await fetch_events(ingest, session)

    session, sentence, events = call_as_api(run)
    is_done, is_failed = session.state == settings.states.done, session.state == settings.states.failed
    changes = [change_from_event(event) for event in events]
    if as_json:
        documents = [change_to_document(change, captured_day(session)) for change in changes]
        print(to_json({**asdict(session), "explanation": sentence, "changes": documents}))
    elif is_done:
        print(f"done      {single_line(format_result(session.result))}")
        print_changes(changes, captured_day(session))
    elif is_failed:
        print(f"failed    {single_line(session.error or '')}")
    else:
        print(f"waits     {single_line(sentence)}")
    if wait_seconds and not is_done:
        sys.exit(NOT_DONE)


async def follow(
    sessions: SessionService,
    session: CaptureSession,
    states: States,
    seconds: float,
    show_step: Callable[[int], None],
) -> CaptureSession:
    """Poll a session until it has ended or the time is over; return it as it is then."""
    deadline, pause = time.monotonic() + seconds, FIRST_POLL_SECONDS
    while session.state not in (states.done, states.failed) and (left := deadline - time.monotonic()) > 0:
        show_step(int(session.state == states.processing))
        await asyncio.sleep(min(pause, left))
        pause = min(2 * pause, MAX_POLL_SECONDS)
        session = await sessions.get_session(session.user_id, session.id)
    return session


async def fetch_events(ingest: Ingest, session: CaptureSession) -> list[ShiftEvent]:
    """Return the events that a session has written."""
    if not session.result or not session.result.get("events"):
        return []
    return await ingest.days.list_all_events(session.user_id, captured_day(session), session.id)


def captured_day(session: CaptureSession) -> date:
    """Return the day that a finished session captured."""
    return date.fromisoformat(str((session.result or {})["schedule_date"]))


def session_settings(settings: Settings) -> SessionSettings:
    """Return the settings that explain sessions."""
    return SessionSettings(
        settings.db_schema,
        states_from_settings(settings),
        settings.session_idle_seconds,
        settings.lease_timeout_seconds,
    )
