"""State transitions are refused or logged by the database, whichever program makes them."""

import itertools
from typing import Any

import psycopg
import pytest
from psycopg import sql

from duly.lease.operations import renew_leases
from tests.support.conformance.fixtures import Connection
from tests.support.conformance.tables import SHAPES, Shape, insert_rows
from tools.state_machines.model import StateMachine

Admin = psycopg.Connection[Any]
Step = tuple[str | None, str]


def statement(text: str, shape: Shape, **names: sql.Composable) -> sql.Composed:
    """Format a statement for this table."""
    table = shape.table
    return sql.SQL(text).format(  # type: ignore[arg-type]
        table=sql.Identifier(*table.qualified_name),
        key=sql.Identifier(table.key),
        note=sql.Identifier(shape.note),
        **names,
    )


def timeline(admin: Admin, machine: StateMachine) -> list[tuple[Any, ...]]:
    """Return the log of every row: key, number, from, to."""
    query = "select key, seq, prev_status, next_status from duly.transition where machine = %s order by key, seq"
    return admin.execute(query, [machine.name]).fetchall()


def steps(admin: Admin, machine: StateMachine) -> list[Step]:
    return [(before, after) for _, _, before, after in timeline(admin, machine)]


def path_to(machine: StateMachine, state: str) -> list[str]:
    """Return the shortest path from an initial state to a state."""
    paths = [[first] for first in machine.initial]
    for path in paths:
        if path[-1] == state:
            return path
        paths += [[*path, after] for after in machine.edges.get(path[-1], ()) if after not in path]
    raise AssertionError(f"no way to {state}")


def bring_to_state(admin: Admin, shape: Shape, state: str) -> None:
    """Insert one row and move it to a state by allowed transitions."""
    first, *rest = path_to(shape.machine, state)
    admin.execute(insert_rows(shape, {shape.state: sql.Literal(first)}))
    for each in rest:
        move(admin, shape, each)


def move(admin: Admin, shape: Shape, to: str) -> None:
    """Change the state of the only row by hand."""
    admin.execute(statement("update {table} set {become}", shape, become=shape.become(to)))


def test_insert_is_checked_as_a_transition(shape: Shape, admin: Admin) -> None:
    for state in shape.machine.states():
        insert = insert_rows(shape, {shape.state: sql.Literal(state)})
        if shape.machine.allows(None, state):
            admin.execute(insert)
        else:
            with pytest.raises(psycopg.DatabaseError, match=f"cannot begin as {state}"):
                admin.execute(insert)


def test_caller_cannot_write_revision_or_moved_from(shape: Shape, admin: Admin) -> None:
    admin.execute(insert_rows(shape, {"revision": sql.Literal(99), "transition_from": sql.Literal("nowhere")}))
    admin.execute(
        statement("update {table} set revision = 77, transition_from = 'nowhere', {note} = 'a change'", shape)
    )
    row = admin.execute(statement("select revision, transition_from from {table}", shape)).fetchone()
    assert row == (1, None)


def test_the_key_of_a_row_cannot_change(shape: Shape, admin: Admin) -> None:
    bring_to_state(admin, shape, shape.ready)
    new_key = "gen_random_uuid()" if shape.key_type == "uuid" else "default"
    with pytest.raises(psycopg.DatabaseError):
        admin.execute(statement("update {table} set {key} = " + new_key, shape))


async def test_transition_log_has_one_line_per_transition_without_gaps(
    shape: Shape, connection: Connection, admin: Admin
) -> None:
    admin.execute(insert_rows(shape, {shape.note: sql.Literal("x")}, 50))
    leases = await shape.claim(connection, "worker-1", lease_seconds=60, limit=50)
    await renew_leases(connection, leases, lease_seconds=60)
    for lease in leases:
        await shape.settle(connection, [lease])
    ready, held = shape.ready, shape.held
    lines = timeline(admin, shape.machine)
    assert len(lines) == 150
    for _, several in itertools.groupby(lines, key=lambda line: line[0]):
        assert [line[1:] for line in several] == [(1, None, ready), (2, ready, held), (3, held, shape.end)]


async def test_a_leased_row_that_changes_its_owner_is_logged(
    shape: Shape, connection: Connection, admin: Admin
) -> None:
    admin.execute(insert_rows(shape, {shape.note: sql.Literal("x")}))
    await shape.claim(connection, "worker-1", lease_seconds=60, limit=1)
    owner = sql.Identifier(shape.owner)
    admin.execute(statement("update {table} set {owner} = 'another'", shape, owner=owner))
    assert steps(admin, shape.machine)[-1] == (shape.held, shape.held)


def test_on_conflict_merge_and_copy_are_logged(shape: Shape, admin: Admin) -> None:
    """ON CONFLICT, MERGE and COPY fire the same triggers."""
    table = shape.table
    key = "'00000000-0000-0000-0000-000000000001'::uuid" if shape.key_type == "uuid" else "1000000"
    overriding = "" if shape.key_type == "uuid" else "overriding system value"
    columns = sql.SQL(", ").join(map(sql.Identifier, (table.key, *shape.required)))
    values = sql.SQL(", ").join((sql.SQL(key), *map(sql.Literal, shape.required.values())))
    upsert = (
        "insert into {table} ({columns}) " + overriding + " values ({values})"
        " on conflict ({key}) do update set {become}"
    )
    for _ in range(2):
        admin.execute(statement(upsert, shape, columns=columns, values=values, become=shape.become(shape.held)))
    merge = (
        "merge into {table} as t using (select " + key + " as key) as s on t.{key} = s.key"
        " when matched then update set {become} when not matched then do nothing"
    )
    admin.execute(statement(merge, shape, become=shape.become(shape.end)))
    copied = {shape.note: "by copy", **shape.required}
    columns = sql.SQL(", ").join(map(sql.Identifier, copied))
    with admin.cursor().copy(statement("copy {table} ({columns}) from stdin", shape, columns=columns)) as copy:
        copy.write_row(list(copied.values()))
    seen = steps(admin, shape.machine)
    assert sorted(seen, key=str) == sorted(
        [(None, shape.ready), (shape.ready, shape.held), (shape.held, shape.end), (None, shape.ready)], key=str
    )


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.machine.transition_if], ids=str)
def test_progress_is_logged_as_a_transition_to_the_same_state(shape: Shape, admin: Admin) -> None:
    bring_to_state(admin, shape, shape.held)
    admin.execute(statement("update {table} set progress = 50", shape))
    admin.execute(statement("update {table} set {note} = 'no progress'", shape))
    assert steps(admin, shape.machine)[-1] == (shape.held, shape.held)
    last = admin.execute("select detail_json from duly.transition order by seq desc limit 1").fetchone()
    assert last == ({"progress": 50},)
    assert len(steps(admin, shape.machine)) == 3


async def test_worker_role_may_move_rows_but_not_write_the_transition_log(shape: Shape, connection: Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await connection.execute(
            "insert into duly.transition (machine, key, seq, next_status) values ('m', 'k', 1, 'x')"
        )
