"""`duly posts`: create, list, edit, release, repair and import posts."""

import sys
from collections.abc import Sequence
from datetime import UTC
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID, uuid4, uuid5

import typer

from duly.apps.posts import service
from duly.apps.posts.explain import explain
from duly.apps.posts.legacy import ImportResult, RejectedLine, import_legacy, read_documents
from duly.apps.posts.model import UID, Intent, Post, validate_caption
from duly.apps.posts.repository import ADMIN_VIEWER
from duly.assembly import build_works
from duly.cli.database_call import call_as_api, call_as_owner, call_as_worker
from duly.cli.existing_database import open_existing, require_database
from duly.cli.options import Cursor, Json, Limit, id_argument, new_group
from duly.cli.output import creation_outcome, print_explanation, print_page, print_record, to_json
from duly.cli.progress import count_progress
from duly.cli.timeline import print_timeline
from duly.db.id_prefix import IdPrefix
from duly.db.location import role_to_set
from duly.db.pool import Pool
from duly.errors import InvalidArgument, TooLarge
from duly.explain import Explanation
from duly.lease.timeline import Transition
from duly.logging import configure_logs
from duly.paging import MAX_ROWS, Page
from duly.settings import load_settings
from duly.storage import open_object_store
from duly.storage.photo import MAX_PHOTO_BYTES, clean_photo
from duly.worker.runner import run_worker

app = new_group("Posts: one per person and day, released six hours later.")

DOCUMENTS_REJECTED = 1
PostId = Annotated[IdPrefix, id_argument("post")]
Author = Annotated[str, typer.Option("--user", metavar="UID", help="The author of the post.")]


@app.command("create")
def create_post(
    image: Annotated[Path, typer.Argument(help="The photograph: JPEG, PNG or WebP.", exists=True, dir_okay=False)],
    user: Author,
    caption: Annotated[str, typer.Option(help="The caption.")] = "",
    request_id: Annotated[
        UUID | None, typer.Option(help="Idempotency key: the same request again returns the first post.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a person's post of the day; it is released six hours later.

    Example: duly posts create sunset.jpg --user anna --caption 'My day'
    """
    uid = validate_uid(user)
    validate_caption(caption)
    if image.stat().st_size > MAX_PHOTO_BYTES:
        raise TooLarge(f"{image} has more than {MAX_PHOTO_BYTES} bytes; send a smaller one")
    photo, settings = clean_photo(image.read_bytes()), load_settings()
    require_database(settings)
    objects = open_object_store(settings)
    request = request_id or uuid4()
    upload_id = uuid5(request, f"{uid}/{sha256(photo).hexdigest()}")  # the same request uploads the image once

    async def create(pool: Pool) -> tuple[str, dict[str, object]]:
        name = await service.upload_image(pool, objects, uid, photo, upload_id)
        creation = await service.create_intent(pool, objects, Intent(uid, name, caption, request))
        return creation_outcome(creation), dict(creation.row)

    outcome, post = call_as_api(create)
    if as_json:
        print(to_json({"outcome": outcome, **post}))
    else:
        print(f"{outcome:9} {post['postId']}  {post['status']}, to be released at {post['releaseTime']}")


@app.command("list")
def list_posts(
    author: Annotated[
        str | None,
        typer.Option(metavar="UID", help="All posts of this user. Default: released posts of all users."),
    ] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """List posts, the newest first.

    Example: duly posts list --author anna
    """
    uid = None if author is None else validate_uid(author)
    page = call_as_api(lambda pool: service.list_posts(pool, ADMIN_VIEWER, author=uid, cursor=cursor, limit=limit))
    print_page(page, ("id", "author_id", "status", "created_at", "released_at", "ai_error", "caption"), as_json)


@app.command("show")
def show_post(post: PostId, as_json: Json = False) -> None:
    """Show a post.

    Example: duly posts show 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """

    async def get(pool: Pool) -> Post:
        return await service.get_post(pool, ADMIN_VIEWER, await service.resolve_id(pool, ADMIN_VIEWER, post))

    print_record(call_as_api(get), as_json)


@app.command("timeline")
def show_timeline(post: PostId, as_json: Json = False) -> None:
    """List the events of a post, in order.

    Example: duly posts timeline 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """

    async def fetch_page(pool: Pool, cursor: str | None) -> Page[Transition]:
        post_id = await service.resolve_id(pool, ADMIN_VIEWER, post)
        return await service.list_transitions(pool, ADMIN_VIEWER, post_id, cursor=cursor, limit=MAX_ROWS)

    print_timeline(fetch_page, as_json)


@app.command("explain")
def explain_post(post: PostId, as_json: Json = False) -> None:
    """Explain in one sentence why a post is not released.

    Example: duly posts explain 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """
    zone = UTC if as_json else None

    async def find_reason(pool: Pool) -> Explanation[Any]:
        return await explain(pool, ADMIN_VIEWER, await service.resolve_id(pool, ADMIN_VIEWER, post), zone=zone)

    print_explanation(call_as_api(find_reason), as_json)


@app.command("edit")
def edit_post(
    post: PostId,
    user: Author,
    caption: Annotated[str, typer.Option(help="The new caption.")],
    as_json: Json = False,
) -> None:
    """Change the caption of a post that is not released yet.

    Example: duly posts edit 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77 --user anna --caption 'My evening'
    """
    uid = validate_uid(user)

    async def edit(pool: Pool) -> Post:
        return await service.edit_caption(pool, uid, await service.resolve_id(pool, uid, post), caption)

    print_record(call_as_api(edit), as_json)


@app.command("release")
def release_posts(as_json: Json = False) -> None:
    """Release all posts that are due, in this process, and exit. Workers do the same continuously.

    Example: duly posts release
    """
    settings = load_settings()
    configure_logs(settings, sys.stderr)
    require_database(settings)
    released = 0
    with open_existing(settings) as database:
        dsn = database.dsn_as(settings.worker_role)
        role = role_to_set(dsn, settings.worker_role)
        while rows := run_worker(build_works(settings, ["posts"]), settings, dsn=dsn, role=role, once=True):
            released += rows
    print(to_json({"released": released}) if as_json else f"released  {released}")


@app.command("repair")
def repair_posts(as_json: Json = False) -> None:
    """Make posts whose lease has expired claimable again. Workers do the same continuously.

    Example: duly posts repair --json
    """
    repaired = call_as_worker(service.repair)
    print(to_json({"repaired": repaired}) if as_json else f"repaired  {repaired}")


@app.command("import-legacy")
def import_posts(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="One JSON document per line, or one JSON array of documents.",
            exists=True,
            dir_okay=False,
        ),
    ],
    as_json: Json = False,
) -> None:
    """Import documents of the first version, each once. Lists rejected documents; exit 1 if there are any.

    Example: duly posts import-legacy posts.jsonl
    """
    rejected: list[dict[str, object]] = []
    size = file.stat().st_size
    with file.open("rb") as opened:
        documents = read_documents(opened)

        def reject(lines: Sequence[RejectedLine]) -> None:
            if as_json:
                rejected.extend({documents.unit: each.number, "id": each.id, "reason": each.reason} for each in lines)
                return
            position = f"{file}:" if documents.unit == "line" else f"{file}: {documents.unit} "
            for each in lines:
                suffix = f" (id {each.id})" if each.id else ""
                print(f"{position}{each.number}: {each.reason}{suffix}", file=sys.stderr)

        async def run_import(pool: Pool) -> ImportResult:
            with count_progress("importing, bytes", size) as show_progress:
                return await import_legacy(pool, documents.each, lambda _: show_progress(opened.tell()), reject)

        result = call_as_owner(run_import)
    units = f"{documents.unit}s"
    if as_json:
        print(to_json({units: result.lines, "added": result.added, "existing": result.existing, "bad": rejected}))
    else:
        print(
            f"imported  {result.added} of {result.lines} {units}; {result.existing} existed already, "
            f"{result.bad} were rejected"
        )
    if result.bad:
        sys.exit(DOCUMENTS_REJECTED)


def validate_uid(uid: str) -> str:
    """Return the uid, or raise InvalidArgument if it cannot be one."""
    if not UID.fullmatch(uid):
        raise InvalidArgument(
            f"{uid[:200]!a} is no uid: it has 1 to 128 characters of A-Z a-z 0-9 . _ : @ - and begins with a letter or "
            "digit"
        )
    return uid
