"""The tables and functions of schema `duly`, on every PostgreSQL version."""

import time
import uuid

import psycopg
import pytest

from duly.db.migrations import Names


@pytest.fixture
def connection(database: str):
    """Connect to a migrated database of each major version."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def test_both_clocks_show_the_time_of_the_database(connection: psycopg.Connection) -> None:
    row = connection.execute(
        "select abs(extract(epoch from duly.clock() - clock_timestamp())) < 1, duly.now() = statement_timestamp()"
    ).fetchone()
    assert row == (True, True)


def test_planner_inlines_the_clock_function(connection: psycopg.Connection) -> None:
    connection.execute("create table due (at timestamptz)")
    connection.execute("insert into due select now() + n * interval '1 s' from generate_series(1, 10000) as n")
    connection.execute("create index on due (at)")
    connection.execute("analyze due")
    plan = "\n".join(line for (line,) in connection.execute("explain select * from due where at <= duly.now()"))
    assert "Index" in plan
    assert "statement_timestamp()" in plan


def test_ids_of_a_batch_are_ascending_version_7_and_unique(connection: psycopg.Connection) -> None:
    began = time.time()
    first, second = (
        ids for _ in range(2) for (ids,) in connection.execute("select duly.new_ids(16384)") if len(ids) == 16_384
    )
    for ids in (first, second):
        assert ids == sorted(ids)
        assert {(each.version, each.variant) for each in ids} == {(7, uuid.RFC_4122)}
        assert all(began - 1 < (each.int >> 80) / 1000 < time.time() + 1 for each in ids)
    assert len({*first, *second}) == len(first) + len(second)
    assert len({each.int & (2**60 - 1) for each in first}) == len(first)
    assert connection.execute("select duly.new_ids(0)").fetchone() == ([],)
    with pytest.raises(psycopg.errors.NumericValueOutOfRange):
        connection.execute("select duly.new_ids(16385)")


def write_transition(connection: psycopg.Connection) -> None:
    connection.execute("insert into duly.transition (machine, key, seq, next_status) values ('m', 'k', 1, 'ready')")


@pytest.mark.parametrize(
    "statement",
    [
        "update duly.transition set actor = 'me'",
        "delete from duly.transition",
        "truncate duly.transition",
        "truncate duly.transition cascade",
    ],
)
def test_transition_log_is_append_only_even_for_its_owner(statement: str, connection: psycopg.Connection) -> None:
    write_transition(connection)
    with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
        connection.execute(statement.encode())
    assert connection.execute("select count(*) from duly.transition").fetchone() == (1,)


def test_runtime_roles_cannot_write_the_transition_log(connection: psycopg.Connection) -> None:
    roles = Names()
    for role in (roles.worker, roles.api, roles.readonly):
        for right in ("insert", "update", "delete", "truncate"):
            query = "select has_table_privilege(%s, 'duly.transition', %s)"
            assert connection.execute(query, [role, right]).fetchone() == (False,)


def test_runtime_roles_own_no_table_and_cannot_create_any(connection: psycopg.Connection) -> None:
    roles = Names()
    for role in (roles.worker, roles.api, roles.readonly):
        row = connection.execute(
            "select rolsuper, rolbypassrls, rolcreaterole, rolcreatedb,"
            " has_schema_privilege(rolname, 'duly', 'create'), has_schema_privilege(rolname, 'user', 'create'),"
            " exists (select from pg_class where relowner = pg_roles.oid)"
            " from pg_roles where rolname = %s",
            [role],
        ).fetchone()
        assert row == (False,) * 7


def test_only_the_first_transition_has_no_previous_status(connection: psycopg.Connection) -> None:
    write_transition(connection)
    with pytest.raises(psycopg.errors.CheckViolation, match="ck_transition__first"):
        connection.execute("insert into duly.transition (machine, key, seq, next_status) values ('m', 'k', 2, 'held')")


def test_updated_at_is_set_by_the_database(connection: psycopg.Connection) -> None:
    connection.execute("""insert into duly.person (uid) values ('anna')""")
    connection.execute("""update duly.person set updated_at = 'epoch', language = 'sv'""")
    row = connection.execute("""select updated_at > created_at from duly.person""").fetchone()
    assert row == (True,)
