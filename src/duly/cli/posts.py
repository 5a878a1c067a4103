"""`duly posts`: make the post of a day, look, change its words, release, repair, import."""

import sys
from collections.abc import Sequence
from datetime import UTC
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4, uuid5

from duly.apps.posts import service
from duly.apps.posts.explain import explain
from duly.apps.posts.legacy import BadLine, Imported, documents_of, import_legacy
from duly.apps.posts.model import UID, Intent, Post, checked_caption
from duly.apps.posts.repository import ANYBODY
from duly.cli.asking import as_api, as_owner, as_worker
from duly.cli.opening import must_have_database, open_existing
from duly.cli.shown import outcome_of, tell_explanation, tell_page, tell_whole, to_json
from duly.cli.timeline import tell_timeline
from duly.cli.watching import counter
from duly.db.id_prefix import IdPrefix
from duly.db.location import role_on
from duly.db.pool import Pool
from duly.errors import InvalidArgument, TooLarge
from duly.explain import Explanation
from duly.lease.timeline import Transition
from duly.logging import configure_logs
from duly.paging import MAX_ROWS, Page
from duly.settings import load_settings
from duly.storage import open_objects
from duly.storage.photo import MAX_PHOTO_BYTES, clean_photo
from duly.wiring import works_of
from duly.worker.runner import run_worker

__all__ = [
    "create_post",
    "edit_post",
    "explain_post",
    "import_posts",
    "list_posts",
    "release_posts",
    "repair_posts",
    "show_post",
    "show_timeline",
]

SOME_LINES_BAD = 1


def create_post(image: Path, uid: str, caption: str, request_id: UUID | None, as_json: bool) -> None:
    """Bring the image and ask for the post, as the API does."""
    checked_uid(uid)
    checked_caption(caption)
    if image.stat().st_size > MAX_PHOTO_BYTES:
        raise TooLarge(f"{image} has more than {MAX_PHOTO_BYTES} bytes; send a smaller one")
    photo, settings = clean_photo(image.read_bytes()), load_settings()
    must_have_database(settings)
    objects = open_objects(settings)
    request = request_id or uuid4()
    key = uuid5(request, f"{uid}/{sha256(photo).hexdigest()}")  # the same request brings the same image

    async def question(pool: Pool) -> tuple[str, dict[str, object]]:
        name = await service.upload_image(pool, objects, uid, photo, key)
        made = await service.create_intent(pool, objects, Intent(uid, name, caption, request))
        return outcome_of(made), dict(made.row)

    outcome, answer = as_api(question)
    if as_json:
        print(to_json({"outcome": outcome, **answer}))
    else:
        print(f"{outcome:9} {answer['postId']}  {answer['status']}, to be released at {answer['releaseTime']}")


def list_posts(author: str | None, limit: int, place: str | None, as_json: bool) -> None:
    """Show a page of posts, and where the next begins."""
    whose = None if author is None else checked_uid(author)
    page = as_api(lambda pool: service.list_posts(pool, ANYBODY, author=whose, place=place, limit=limit))
    tell_page(page, ("id", "author_id", "status", "created_at", "released_at", "ai_error", "caption"), as_json)


def show_post(given: IdPrefix, as_json: bool) -> None:
    """Show a post."""

    async def question(pool: Pool) -> Post:
        return await service.get_post(pool, ANYBODY, await service.resolve_id(pool, ANYBODY, given))

    tell_whole(as_api(question), as_json)


def show_timeline(given: IdPrefix, as_json: bool) -> None:
    """Show what happened to a post."""

    async def read(pool: Pool, place: str | None) -> Page[Transition]:
        key = await service.resolve_id(pool, ANYBODY, given)
        return await service.list_transitions(pool, ANYBODY, key, place=place, limit=MAX_ROWS)

    tell_timeline(read, as_json)


def explain_post(given: IdPrefix, as_json: bool) -> None:
    """Say why a post has not appeared."""
    zone = UTC if as_json else None

    async def question(pool: Pool) -> Explanation[Any]:
        return await explain(pool, ANYBODY, await service.resolve_id(pool, ANYBODY, given), zone=zone)

    tell_explanation(as_api(question), as_json)


def edit_post(given: IdPrefix, uid: str, caption: str, as_json: bool) -> None:
    """Change the caption of a post that waits."""
    author = checked_uid(uid)

    async def question(pool: Pool) -> Post:
        return await service.edit_caption(pool, author, await service.resolve_id(pool, author, given), caption)

    tell_whole(as_api(question), as_json)


def release_posts(as_json: bool) -> None:
    """Release what is due, cycle by cycle, until nothing is."""
    settings = load_settings()
    configure_logs(settings, sys.stderr)
    must_have_database(settings)
    released = 0
    with open_existing(settings) as database:
        dsn = database.dsn_as(settings.worker_role)
        role = role_on(dsn, settings.worker_role)
        while rows := run_worker(works_of(settings, ["posts"]), settings, dsn=dsn, role=role, once=True):
            released += rows
    print(to_json({"released": released}) if as_json else f"released  {released}")


def repair_posts(as_json: bool) -> None:
    """Let posts wait again whose holders are gone."""
    repaired = as_worker(service.repair)
    print(to_json({"repaired": repaired}) if as_json else f"repaired  {repaired}")


def import_posts(file: Path, as_json: bool) -> None:
    """Import documents, with a bar over the bytes of the file; every refused one is told with its number and id."""
    bad: list[dict[str, object]] = []
    size = file.stat().st_size
    with file.open("rb") as opened:
        found = documents_of(opened)

        def refuse(several: Sequence[BadLine]) -> None:
            if as_json:
                bad.extend({found.unit: each.number, "id": each.id, "reason": each.reason} for each in several)
                return
            place = f"{file}:" if found.unit == "line" else f"{file}: {found.unit} "
            for each in several:
                print(f"{place}{each.number}: {each.reason}{f' (id {each.id})' if each.id else ''}", file=sys.stderr)

        async def question(pool: Pool) -> Imported:
            with counter("importing, bytes", size) as tell_progress:
                return await import_legacy(pool, found.each, lambda _: tell_progress(opened.tell()), refuse)

        done = as_owner(question)
    units = f"{found.unit}s"
    if as_json:
        print(to_json({units: done.lines, "added": done.added, "existing": done.existing, "bad": bad}))
    else:
        print(f"imported  {done.added} of {done.lines} {units}; {done.existing} were there already, {done.bad} are bad")
    if done.bad:
        sys.exit(SOME_LINES_BAD)


# Within ---------------------------------------------------------------------------------------------------------------


def checked_uid(uid: str) -> str:
    """What can be somebody's uid, or a refusal."""
    if not UID.fullmatch(uid):
        raise InvalidArgument(
            f"{uid[:200]!a} is no uid: it has 1 to 128 characters of A-Z a-z 0-9 . _ : @ - and begins with a letter or "
            "digit"
        )
    return uid
