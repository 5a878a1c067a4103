"""What the outbox accepts and refuses, on every PostgreSQL there is."""

from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from duly.db.migrations import Names
from duly.db.pool import connect
from duly.lease.operations import Lease
from duly.outbox import OUTBOX
from duly.outbox.repository import claim_messages
from duly.testing import move_clock
from tests.support.actions import Admin

LEASE = 60.0
MESSAGE: dict[str, object] = {
    "channel": "telegram",
    "recipient": "4711",
    "kind": "reminder",
    "payload": Jsonb({"text": "Rent is due"}),
}


def create_message(connection: Admin, **columns: object) -> UUID:
    """Create a message; return its id."""
    given = MESSAGE | columns
    insert = sql.SQL("insert into duly.outbox ({}) values ({}) returning id").format(
        sql.SQL(", ").join(map(sql.Identifier, given)), sql.SQL(", ").join(map(sql.Placeholder, given))
    )
    (key,) = connection.execute(insert, given).fetchone() or (None,)
    assert isinstance(key, UUID)
    return key


def only_message(admin: Admin, *columns: str) -> tuple[Any, ...]:
    """Return these columns of the only message."""
    (row,) = admin.execute(
        sql.SQL("select {} from duly.outbox").format(sql.SQL(", ").join(map(sql.Identifier, columns)))
    ).fetchall()
    return row


async def claim_message(admin: Admin) -> Lease:
    """Claim the only message as a worker."""
    async with await connect(make_conninfo(admin.info.dsn, user=Names().worker)) as connection:
        (lease,) = await claim_messages(connection, OUTBOX, "worker-1", ["telegram"], lease_seconds=LEASE, limit=1)
    return lease


async def settle_message(admin: Admin, lease: Lease, to: str, **changes: object) -> None:
    """Settle it as a worker."""
    columns = [sql.SQL(", {} = {}").format(sql.Identifier(name), value) for name, value in changes.items()]
    statement = sql.SQL(
        "update duly.outbox set status = {}, settled_by = lease_owner, lease_owner = null, lease_expires_at = null{}"
        " where id = {} and lease_owner = {}"
    ).format(to, sql.Composed(columns), lease.key, lease.owner)
    async with await connect(make_conninfo(admin.info.dsn, user=Names().worker)) as connection:
        await connection.execute(statement)


def call(admin: Admin) -> None:
    """Note that the transport is about to be called."""
    admin.execute("update duly.outbox set called_at = duly.clock()")


def test_new_message_is_pending_and_due_at_once(admin: Admin) -> None:
    key = create_message(admin)
    assert only_message(admin, "id", "status", "starts", "revision") == (key, "pending", 0, 1)
    assert only_message(admin, "called_at", "sent_at", "receipt", "last_error") == (None,) * 4
    due = admin.execute("select due_at <= duly.clock() and created_at <= duly.clock() from duly.outbox")
    assert due.fetchone() == (True,)


def test_dedupe_key_prevents_a_second_message_of_a_retried_transaction(admin: Admin) -> None:
    create_message(admin, dedupe_key="run-7/reminder-1")
    with pytest.raises(psycopg.errors.UniqueViolation, match="uq_outbox__dedupe_key"):
        create_message(admin, dedupe_key="run-7/reminder-1")
    create_message(admin, dedupe_key=None)
    create_message(admin, dedupe_key=None)
    assert admin.execute("select count(*) from duly.outbox").fetchone() == (3,)


@pytest.mark.parametrize(
    ("constraint", "columns"),
    [
        ("ck_outbox__channel", {"channel": ""}),
        ("ck_outbox__channel", {"channel": "Telegram"}),
        ("ck_outbox__channel", {"channel": "a" * 33}),
        ("ck_outbox__channel", {"channel": "mail\n"}),
        ("ck_outbox__recipient", {"recipient": ""}),
        ("ck_outbox__recipient", {"recipient": "é" * 513}),
        ("ck_outbox__kind", {"kind": "release notice"}),
        ("ck_outbox__kind", {"kind": "a" * 65}),
        ("ck_outbox__payload", {"payload": Jsonb([])}),
        ("ck_outbox__payload", {"payload": Jsonb(None)}),
        ("ck_outbox__payload", {"payload": Jsonb({"text": "x" * 65_536})}),
        ("ck_outbox__dedupe_key", {"dedupe_key": ""}),
        ("ck_outbox__dedupe_key", {"dedupe_key": "x" * 513}),
        ("ck_outbox__starts", {"starts": -1}),
        ("ck_outbox__last_error", {"last_error": "x" * 2_049}),
        ("ck_outbox__last_error", {"last_error": ""}),
        ("ck_outbox__receipt", {"receipt": "x" * 2_049}),
        ("ck_outbox__owners", {"settled_by": "x" * 301}),
        ("ck_outbox__lease", {"lease_owner": "me"}),
        ("ck_outbox__lease", {"lease_expires_at": "2030-01-01T00:00Z"}),
        ("ck_outbox__called_at", {"called_at": "2030-01-01T00:00Z"}),
        ("ck_outbox__sent_at", {"sent_at": "2030-01-01T00:00Z"}),
        ("ck_outbox__years_2000_to_2200", {"due_at": "1999-12-31T23:59:59Z"}),
        ("ck_outbox__years_2000_to_2200", {"due_at": "2200-01-01T00:00Z"}),
        ("ck_outbox__years_2000_to_2200", {"due_at": "infinity"}),
        ("ck_outbox__years_2000_to_2200", {"created_at": "-infinity"}),
    ],
)
def test_invalid_message_violates_the_named_constraint(
    constraint: str, columns: dict[str, object], admin: Admin
) -> None:
    with pytest.raises(psycopg.errors.CheckViolation) as refusal:
        create_message(admin, **columns)
    assert refusal.value.diag.constraint_name == constraint


@pytest.mark.parametrize(
    "columns",
    [
        {"channel": "a" + "0" * 31, "kind": "alert.disk_full"},
        {"recipient": "é" * 512},
        {"payload": Jsonb({"text": "x" * 65_000})},
        {"due_at": "2000-01-01T00:00Z"},
        {"due_at": "2199-12-31T23:59:59Z"},
        {"dedupe_key": "x" * 512},
    ],
)
def test_message_at_the_limits_is_accepted(columns: dict[str, object], admin: Admin) -> None:
    create_message(admin, **columns)


async def test_sent_at_is_set_by_the_database(admin: Admin) -> None:
    create_message(admin)
    lease = await claim_message(admin)
    call(admin)
    await settle_message(admin, lease, "sent", receipt="message 815")
    assert only_message(admin, "status", "receipt", "settled_by", "lease_owner") == (
        "sent",
        "message 815",
        lease.owner,
        None,
    )
    assert admin.execute("select sent_at between called_at and duly.clock() from duly.outbox").fetchone() == (True,)


async def test_sent_at_given_by_the_caller_is_ignored(admin: Admin) -> None:
    create_message(admin)
    lease = await claim_message(admin)
    await settle_message(admin, lease, "sent", sent_at="2001-01-01T00:00Z")
    assert admin.execute("select sent_at > created_at from duly.outbox").fetchone() == (True,)


async def test_sent_at_of_a_resolved_uncertain_message_is_its_called_at(admin: Admin) -> None:
    create_message(admin)
    lease = await claim_message(admin)
    call(admin)
    await settle_message(admin, lease, "uncertain", last_error="no answer")
    move_clock(admin, 3_600)
    admin.execute("update duly.outbox set status = 'sent'")
    assert admin.execute("select sent_at = called_at from duly.outbox").fetchone() == (True,)


async def test_message_whose_transport_was_called_cannot_return_to_pending(admin: Admin) -> None:
    """A sweep that knows nothing of calls is refused: never is anything sent twice by accident."""
    create_message(admin)
    await claim_message(admin)
    call(admin)
    move_clock(admin, LEASE + 1)
    async with await connect(make_conninfo(admin.info.dsn, user=Names().worker)) as worker:
        with pytest.raises(psycopg.errors.CheckViolation, match="ck_outbox__called_at"):
            await worker.execute(
                "update duly.outbox set status = 'pending', lease_owner = null, lease_expires_at = null"
                " where status = 'sending' and lease_expires_at < duly.now()"
            )
    assert only_message(admin, "status") == ("sending",)


async def test_expired_message_is_uncertain_if_called_and_otherwise_pending(admin: Admin) -> None:
    """The shape of the sender's own sweep: the row itself says what is known."""
    called, other = create_message(admin), create_message(admin)
    async with await connect(make_conninfo(admin.info.dsn, user=Names().worker)) as worker:
        await claim_messages(worker, OUTBOX, "worker-1", ["telegram"], lease_seconds=LEASE, limit=2)
        await worker.execute("update duly.outbox set called_at = duly.clock() where id = %s", [called])
        move_clock(admin, LEASE + 1)
        await worker.execute(
            "update duly.outbox set status = case when called_at is null then 'pending' else 'uncertain' end,"
            " settled_by = lease_owner, lease_owner = null, lease_expires_at = null, last_error = 'the sender is gone'"
            " where status = 'sending' and lease_expires_at < duly.now()"
        )
    rows = admin.execute("select id, status from duly.outbox").fetchall()
    assert dict(rows) == {called: "uncertain", other: "pending"}


async def test_message_that_was_not_called_cannot_become_uncertain(admin: Admin) -> None:
    create_message(admin)
    lease = await claim_message(admin)
    with pytest.raises(psycopg.errors.CheckViolation, match="ck_outbox__called_at"):
        await settle_message(admin, lease, "uncertain")


async def test_transition_log_records_sender_starts_and_error(admin: Admin) -> None:
    key = create_message(admin)
    first = await claim_message(admin)
    await settle_message(admin, first, "pending", last_error="503")
    second = await claim_message(admin)
    call(admin)
    await settle_message(admin, second, "sent")
    lines = admin.execute(
        "select next_status, actor, detail_json - 'called_at', detail_json ? 'called_at' from duly.transition"
        " where machine = 'outbox' and key = %s order by seq",
        [str(key)],
    ).fetchall()
    assert lines == [
        ("pending", None, {"starts": 0}, False),
        ("sending", first.owner, {"starts": 1}, False),
        ("pending", first.owner, {"starts": 1, "error": "503"}, False),
        ("sending", second.owner, {"starts": 2}, False),
        ("sent", second.owner, {"starts": 2}, True),
    ]


@pytest.mark.parametrize(
    ("role", "rights"),
    [
        (Names().worker, {"select", "insert", "update"}),
        (Names().api, {"select", "insert"}),
        (Names().readonly, {"select"}),
    ],
)
def test_each_role_has_exactly_its_privileges_and_none_may_delete(role: str, rights: set[str], admin: Admin) -> None:
    query = "select has_table_privilege(%s, 'duly.outbox', %s)"
    every = ("select", "insert", "update", "delete", "truncate", "references", "trigger")
    assert {right for right in every if admin.execute(query, [role, right]).fetchone() == (True,)} == rights


def test_api_role_creates_messages_in_its_own_transaction(admin: Admin) -> None:
    with psycopg.connect(make_conninfo(admin.info.dsn, user=Names().api)) as api:
        create_message(api)
        api.rollback()
        create_message(api)
    assert only_message(admin, "status") == ("pending",)
    assert admin.execute("select count(*) from duly.transition where machine = 'outbox'").fetchone() == (1,)
