"""What `duly ingest` offers."""

from pathlib import Path
from typing import Annotated, Any

import typer

from duly.cli.ids import id_argument

__all__ = ["ingest_app"]

ingest_app = typer.Typer(
    help="Days: photographed schedules become versions, changes and messages.", no_args_is_help=True
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
Id = Annotated[Any, id_argument("session")]
Day = Annotated[str, typer.Argument(metavar="DATE", help="The day, such as 2026-02-10.")]
User = Annotated[str, typer.Option("--user", metavar="UID|TELEGRAM_ID", help="Whose.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="So many at most.")]
Place = Annotated[str | None, typer.Option(help="Go on here: what the page before gave as next.")]


Images = Annotated[
    list[Path], typer.Argument(metavar="IMAGE", help="Photographs, of one day or several.", exists=True, dir_okay=False)
]


@ingest_app.command("read")
def ingest_read(images: Images, as_json: Json = False) -> None:
    """Read photographs here and say what they show; nothing is kept. Exit 1 when one of them cannot be relied on.

    Example: duly ingest read day.png
    """
    from duly.cli.reading import read_images

    read_images(images, as_json)


@ingest_app.command("capture")
def ingest_capture(
    user: User,
    images: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[IMAGE]", help="Photographs of one day.", exists=True, dir_okay=False),
    ] = None,
    fixture: Annotated[
        Path | None,
        typer.Option(help="Instead: the day as a JSON file, schedule_date and entries.", exists=True, dir_okay=False),
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=3600,
            help="Wait so many seconds for what comes of it; 0 does not wait. Default: 30, and 60 more for each "
            "photograph.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Give a day, photographed or as data, wait until a worker has seen it, and say what changed. Exit 1 when not.

    Example: duly ingest capture morning.png evening.png --user 42
    """
    from duly.cli.ingest import capture_data, capture_photographs

    if bool(images) == bool(fixture):
        raise typer.BadParameter("give either photographs or --fixture")
    if fixture:
        capture_data(fixture, user, wait, as_json)
    else:
        capture_photographs(images or [], user, wait, as_json)


@ingest_app.command("list")
def ingest_list(user: User, limit: Limit = 20, place: Place = None, as_json: Json = False) -> None:
    """Show a person's sessions, the newest first.

    Example: duly ingest list --user 42
    """
    from duly.cli.ingest import list_sessions

    list_sessions(user, limit, place, as_json)


@ingest_app.command("show")
def ingest_show(session: Id, as_json: Json = False) -> None:
    """Show a session and its images.

    Example: duly ingest show 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """
    from duly.cli.ingest import show_session

    show_session(session, as_json)


@ingest_app.command("timeline")
def ingest_timeline(session: Id, as_json: Json = False) -> None:
    """Show what happened to a session, in order.

    Example: duly ingest timeline 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """
    from duly.cli.ingest import show_timeline

    show_timeline(session, as_json)


@ingest_app.command("explain")
def ingest_explain(session: Id, as_json: Json = False) -> None:
    """Say in one sentence why nothing happens to a session, or what came of it.

    Example: duly ingest explain 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """
    from duly.cli.ingest import explain_session

    explain_session(session, as_json)


@ingest_app.command("day")
def ingest_day(day: Day, user: User, as_json: Json = False) -> None:
    """Show a day as it is known now.

    Example: duly ingest day 2026-02-10 --user 42
    """
    from duly.cli.ingest import show_day

    show_day(day, user, as_json)


@ingest_app.command("versions")
def ingest_versions(day: Day, user: User, limit: Limit = 20, place: Place = None, as_json: Json = False) -> None:
    """Show the versions of a day, in order.

    Example: duly ingest versions 2026-02-10 --user 42
    """
    from duly.cli.ingest import list_versions

    list_versions(day, user, limit, place, as_json)


@ingest_app.command("diff")
def ingest_diff(
    day: Day,
    before: Annotated[int, typer.Argument(metavar="V1", min=0, max=2**31 - 1, help="From this version; 0 is nothing.")],
    after: Annotated[int, typer.Argument(metavar="V2", min=0, max=2**31 - 1, help="To this one.")],
    user: User,
    as_json: Json = False,
) -> None:
    """Show what changed from one version of a day to another.

    Example: duly ingest diff 2026-02-10 1 2 --user 42
    """
    from duly.cli.ingest import show_diff

    show_diff(day, before, after, user, as_json)


@ingest_app.command("events")
def ingest_events(day: Day, user: User, limit: Limit = 100, place: Place = None, as_json: Json = False) -> None:
    """Show what changed in a day, shift by shift, in order.

    Example: duly ingest events 2026-02-10 --user 42
    """
    from duly.cli.ingest import list_events

    list_events(day, user, limit, place, as_json)


@ingest_app.command("notifications")
def ingest_notifications(day: Day, user: User, limit: Limit = 100, place: Place = None, as_json: Json = False) -> None:
    """Show what a person was told of a day, or is to be told, in the order of delivery.

    Example: duly ingest notifications 2026-02-10 --user 42
    """
    from duly.cli.ingest import list_notifications

    list_notifications(day, user, limit, place, as_json)


@ingest_app.command("replay")
def ingest_replay(day: Day, user: User, as_json: Json = False) -> None:
    """Rebuild a day from its events alone, and say whether that is the day as it is known; exit 1 when not.

    Example: duly ingest replay 2026-02-10 --user 42
    """
    from duly.cli.ingest import replay_day

    replay_day(day, user, as_json)
