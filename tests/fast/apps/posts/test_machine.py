"""The edges of a post, one by one, the columns that never change, and the SQL that enforces it."""

import itertools
from uuid import UUID

import psycopg
import pytest
from psycopg import errors
from psycopg.conninfo import make_conninfo

from duly.apps.posts.model import PostStatus
from duly.db.migrations import Names
from duly.verify import compare
from duly.verify.contract import contract_lines
from tests.support.posts.actions import HOURS, Admin, PostActions
from tools.state_machines.model import ILLEGAL_TRANSITION
from tools.state_machines.posts import POST_MACHINE

UNHELD = "lease_owner = null, lease_expires_at = null"
BESIDE = {
    "PENDING": UNHELD,
    "PROCESSING": "lease_owner = 'me/1', lease_expires_at = duly.clock() - interval '1 ms', process_attempts = 1",
    "RELEASED": UNHELD + ", settled_by = 'me/1'",
}
PATHS_TO_STATE = {"PENDING": [], "PROCESSING": ["PROCESSING"], "RELEASED": ["PROCESSING", "RELEASED"]}
FIXED = {
    "author_id": "'bo'",
    "created_at": "created_at + interval '1 s'",
    "release_time": "release_time - interval '1 h'",
    "daily_key": "'anna_20010101'",
    "request_id": "gen_random_uuid()",
    "image_url": "'posts/ot/other.jpg'",
    "legacy": "'{}'",
}


def move(admin: Admin, to: str) -> None:
    """Change the status of the only post, as any role with rights could."""
    admin.execute(f"update posts.posts set status = '{to}', {BESIDE[to]}".encode())


@pytest.mark.breaks_invariants
@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(PostStatus, 2)))
def test_every_transition_is_allowed_or_refused_as_declared(before: str, after: str, posts: PostActions) -> None:
    (key,) = posts.create_due()
    for each in PATHS_TO_STATE[before]:
        move(posts.admin, each)
    if POST_MACHINE.allows(before, after):
        move(posts.admin, after)
        assert posts.path(key) == ["PENDING", *PATHS_TO_STATE[before], after]
        assert [at is not None for at in posts.columns("released_at")] == [after == "RELEASED"]
        return
    with pytest.raises(psycopg.DatabaseError, match=f"cannot go from {before} to {after}") as refusal:
        move(posts.admin, after)
    assert refusal.value.sqlstate == ILLEGAL_TRANSITION


@pytest.mark.parametrize("status", [*PostStatus, "INIT"])
def test_post_starts_pending_and_only_an_imported_one_released(status: str, posts: PostActions, admin: Admin) -> None:
    posts.add_user("anna")
    insert = "insert into posts.posts (author_id, status, release_time, legacy) values ('anna', %s, duly.clock(), %s)"
    if status in ("PENDING", "RELEASED"):
        admin.execute(insert, [status, "{}"])
        assert posts.columns("status", "version") == [(status, 1)]
    with pytest.raises(psycopg.DatabaseError):
        admin.execute(insert, [status, None])


@pytest.mark.parametrize("column", FIXED)
def test_creation_columns_of_a_post_cannot_be_changed(column: str, posts: PostActions, admin: Admin) -> None:
    posts.add_user("bo")
    posts.create()
    with pytest.raises(psycopg.DatabaseError, match="these stay as they are") as refusal:
        admin.execute(f"update posts.posts set {column} = {FIXED[column]}".encode())
    assert refusal.value.sqlstate == ILLEGAL_TRANSITION


def test_post_cannot_be_claimed_before_its_release_time(posts: PostActions, admin: Admin) -> None:
    posts.create()
    for seconds in (6 * HOURS - 60, -3 * HOURS, 2 * HOURS):
        posts.advance_clock(seconds)
        with pytest.raises(psycopg.DatabaseError, match="is not released before"):
            move(admin, "PROCESSING")
    posts.advance_clock(1 * HOURS + 61)
    move(admin, "PROCESSING")


async def test_a_post_with_a_valid_lease_cannot_be_repaired(posts: PostActions, admin: Admin) -> None:
    posts.create_due()
    await posts.claim()
    with pytest.raises(psycopg.DatabaseError, match="is held until"):
        move(admin, "PENDING")


async def test_a_leased_post_cannot_be_claimed_by_another_worker(posts: PostActions, admin: Admin) -> None:
    posts.create_due()
    await posts.claim()
    with pytest.raises(psycopg.DatabaseError, match="stays as it is"):
        admin.execute("update posts.posts set lease_owner = 'another/2'")


@pytest.mark.breaks_invariants
async def test_released_post_cannot_be_changed(posts: PostActions, admin: Admin) -> None:
    posts.create_due()
    await posts.release(*await posts.claim())
    for change in (
        "ai_error = 'OTHER'",
        "ai = '{}'",
        "caption = 'better'",
        "process_attempts = 7",
        "settled_by = 'me'",
    ):
        with pytest.raises(psycopg.DatabaseError, match="stays as it is") as refusal:
            admin.execute(f"update posts.posts set {change}".encode())
        assert refusal.value.sqlstate == ILLEGAL_TRANSITION


def test_version_and_updated_at_are_set_by_the_database(posts: PostActions, admin: Admin) -> None:
    posts.create()
    admin.execute("update posts.posts set caption = 'a', version = 70, updated_at = '2001-01-01Z', revision = 9")
    admin.execute("update posts.posts set caption = 'a', version = 1")
    admin.execute("update posts.posts set caption = 'b', released_at = duly.clock(), processing_since = duly.clock()")
    assert posts.columns("version", "revision", "released_at", "processing_since") == [(4, 3, None, None)]
    assert all(at.year > 2001 for at in posts.columns("updated_at"))
    posts.verify()


async def test_renewed_lease_ends_ten_minutes_after_the_claim(posts: PostActions, admin: Admin) -> None:
    posts.create_due()
    await posts.claim(lease_seconds=3600)
    query = "select lease_expires_at - processing_since = interval '10 minutes' from posts.posts"
    assert admin.execute(query).fetchone() == (True,)
    posts.advance_clock(500)
    admin.execute("update posts.posts set lease_expires_at = duly.clock() + interval '1 hour'")
    assert admin.execute(query).fetchone() == (True,)
    posts.advance_clock(101)
    assert await posts.sweep() == 1
    assert posts.columns("status", "processing_since", "process_attempts") == [("PENDING", None, 1)]
    posts.verify()


@pytest.mark.parametrize(
    ("column", "value", "rule"),
    [
        ("caption", "repeat('x', 2201)", "ck_posts__caption"),
        ("ai", "'{}'", "ck_posts__ai"),
        ("ai_error", "'AI_FAILED'", "ck_posts__ai_error"),
        ("process_attempts", "-1", "ck_posts__process_attempts"),
        ("lease_expires_at", "duly.clock()", "ck_posts__lease"),
        ("settled_by", "repeat('x', 301)", "ck_posts__owners"),
    ],
)
def test_violated_constraint_is_named(column: str, value: str, rule: str, posts: PostActions, admin: Admin) -> None:
    posts.create()
    with pytest.raises(errors.CheckViolation) as refusal:
        admin.execute(f"update posts.posts set {column} = {value}".encode())
    assert refusal.value.diag.constraint_name == rule


def test_release_time_is_six_hours_after_creation(posts: PostActions, admin: Admin) -> None:
    posts.create()
    assert admin.execute("select release_time - created_at = interval '6 hours' from posts.posts").fetchone() == (True,)
    with pytest.raises(errors.CheckViolation) as refusal:
        admin.execute(
            "insert into posts.posts (author_id, release_time, created_at, daily_key, request_id, image_url)"
            " select author_id, release_time - interval '1 h', created_at, daily_key, request_id, image_url"
            " from posts.posts"
        )
    assert refusal.value.diag.constraint_name == "ck_posts__release_time"


RIGHTS = {
    "api": {"update (caption)": True, "update (status)": False, "update (ai)": False, "insert": False, "delete": False},
    "worker": {"update (caption)": False, "update (status)": True, "update (ai)": True, "insert": False},
    "readonly": {"select": True, "update (caption)": False, "insert": False},
}


@pytest.mark.parametrize("part", RIGHTS)
def test_each_role_has_exactly_its_privileges_on_posts(part: str, admin: Admin) -> None:
    role = getattr(Names(), part)
    for right, expected in RIGHTS[part].items():
        verb, _, column = right.partition(" ")
        query = (
            "has_column_privilege(%s, 'posts.posts', %s, %s)"
            if column
            else "has_table_privilege(%s, 'posts.posts', %s)"
        )
        given = [role, column.strip("()"), verb] if column else [role, verb]
        assert admin.execute(f"select {query}".encode(), given).fetchone() == (expected,), right


def test_api_role_may_update_only_the_caption(posts: PostActions, admin: Admin) -> None:
    (key,) = posts.create()
    with psycopg.connect(make_conninfo(admin.info.dsn, user=Names().api), autocommit=True) as api:
        api.execute("update posts.posts set caption = 'my evening' where id = %s", [key])
        for column in ("status", "version", "image_url", "ai", "release_time", "lease_owner"):
            with pytest.raises(errors.InsufficientPrivilege):
                api.execute(f"update posts.posts set {column} = {column}".encode())
    assert posts.path(key) == ["PENDING", "PENDING"]


def test_contract_lists_the_edges_of_the_state_machine() -> None:
    drawn = {f"begin posts.posts.status {first}" for first in POST_MACHINE.initial}
    drawn |= {f"edge posts.posts.status {one} -> {two}" for one, all_ in POST_MACHINE.edges.items() for two in all_}
    assert {line for line in contract_lines("posts") if line.startswith(("begin ", "edge "))} == drawn


def test_fresh_database_matches_the_contract(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as admin:
        assert compare(admin, "posts") == []


def test_post_document_has_the_fields_of_the_contract(posts: PostActions, admin: Admin) -> None:
    (key,) = posts.create()
    row = admin.execute("select document from posts.documents").fetchone()
    assert row is not None
    (document,) = row
    assert UUID(document["postId"]) == key
    assert {"authorId", "status", "releaseTime", "createdAt", "updatedAt", "dailyKey", "version", "requestId"} <= set(
        document
    )
    assert document["dailyKey"] == f"anna_{document['createdAt'][:10].replace('-', '')}"
