"""Where another system has `"user".users`: it is used as it is and never written to; people are linked to its rows."""

from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from duly.db.fingerprint import fingerprint
from duly.db.migrate import migrate, newest_revisions
from duly.db.migrations import Names
from duly.errors import Conflict, Misconfigured, NotFound
from duly.testing import TestDatabases
from duly.verify.contract import compare, installed_contracts
from tests.fast.db.test_states import Admin, differences, go
from tests.support.command_line import CommandLine

USERS = """
create schema "user" authorization {owner};
set role {owner};
create table "user".users (id bigint primary key, email text not null unique);
insert into "user".users (id, email) values (5, 'anna@example.org'), (7, 'bo@example.org');
create function "user".touch() returns int language sql return 1;
reset role;
"""
SCHEDULE = """
insert into scheduler.jobs (user_id, name, rule, first_run_at)
values (%s, 'Rent', 'cron: 0 10 1 * *', duly.clock()) returning id
"""


@pytest.fixture
def owner(server: str, worker_id: str) -> Generator[str, None, None]:
    """The role of another system."""
    name = f"backend_{worker_id}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {}").format(sql.Identifier(name)))
        yield name
        connection.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@pytest.fixture
def admin(server: str, run_home: Path, worker_id: str, owner: str) -> Generator[Admin, None, None]:
    """A database in which only the users of another system are."""
    databases = TestDatabases(server, f"duly_test_users_{worker_id}", template="template0")
    with databases.clone(worker_id) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL(USERS).format(owner=sql.Identifier(owner)))
        yield connection


@pytest.fixture
def linked(admin: Admin, tmp_path: Path) -> CommandLine:
    """The commands of that database with duly beside the users, and anna, who is user 5 there."""
    migrate_beside(admin)
    cli = CommandLine(admin.info.dsn, tmp_path)
    cli.output("people", "create", "cia")
    cli.output("people", "create", "anna", "--currency", "SEK")
    assert cli.json("people", "link", "anna", 5)["user_id"] == 5
    return cli


def migrate_beside(admin: Admin) -> None:
    """Migrate after running what the refusal prints."""
    with pytest.raises(Misconfigured) as refusal:
        go(admin)
    statements = str(refusal.value).rpartition("ask an administrator to run: ")[2]
    admin.execute(statements.encode())
    assert go(admin) == newest_revisions()


def users_of(admin: Admin) -> list[str]:
    """The catalogue of the other system, without what was granted to us, and its rows with the versions they have."""
    rows = admin.execute('select xmin::text || u::text from "user".users as u order by id')
    lines = [line for line in fingerprint(admin, ("user",)) if not line.endswith(" to duly_owner")]
    return [*lines, *(row for (row,) in rows)]


def run_sql(admin: Admin, statement: str, *given: object) -> list[tuple[object, ...]]:
    """Run a statement; return its rows."""
    return admin.execute(statement.encode(), given).fetchall()


def test_migrate_prints_the_grants_it_needs_and_then_leaves_the_table_as_it_is(
    admin: Admin, owner: str, tmp_path: Path
) -> None:
    before = users_of(admin)
    with pytest.raises(Misconfigured) as refusal:
        go(admin)
    message, _, statements = str(refusal.value).partition("; ask an administrator to run: ")
    assert message == f'nothing was changed: "user".users (owner {owner}) exists, and "duly_owner" may not reference it'
    assert statements.removeprefix("create role duly_owner nologin noinherit; ") == (
        'grant usage on schema "user" to duly_owner; grant select, references on "user".users to duly_owner'
    )
    migrate_beside(admin)
    assert users_of(admin) == before
    assert (installed_contracts(admin)[-1], differences(admin)) == ("ingest", [])
    cli = CommandLine(admin.info.dsn, tmp_path)
    cli.output("people", "create", "anna")
    assert cli.json("people", "list")[0]["user_id"] is None
    assert cli.output("verify").endswith("0 differences, 0 violations\n")
    assert users_of(admin) == before


@pytest.mark.parametrize(
    "change",
    [
        'alter table "user".users drop constraint users_pkey',
        'alter table "user".users alter id type text',
        'alter table "user".users rename id to key',
        'alter table "user".users rename to people; create view "user".users as select id from "user".people',
    ],
)
def test_users_without_a_bigint_key_are_refused_by_name_with_the_way_out(change: str, admin: Admin, owner: str) -> None:
    admin.execute(change.encode())
    go(admin, "none")
    admin.execute('grant usage on schema "user" to duly_owner; grant all on "user".users to duly_owner')
    with pytest.raises(Misconfigured) as refusal:
        go(admin, "all")
    for part in (
        '"user".users (owner ',
        'has no unique column "id" of type bigint',
        "duly migrate --apps posts,ingest",
    ):
        assert part in str(refusal.value)
    assert go(admin, "posts,ingest") == ("engine_0001", "posts_0001", "ingest_0001")
    assert "scheduler" not in installed_contracts(admin)
    assert differences(admin) == []


def test_a_linked_person_has_schedules_and_expenses_under_the_users_id(linked: CommandLine, admin: Admin) -> None:
    before = users_of(admin)
    schedule = linked.json("schedule", "add", "Rent", "--user", "anna", "--rule", "cron: 0 10 1 * *", "--amount", 9)
    assert (schedule["user_id"], schedule["uid"]) == (5, "anna")
    fired = linked.json("schedule", "fire", schedule["id"])
    linked.output("schedule", "answer", fired["id"], "complete")
    assert run_sql(admin, "select user_id, currency from expense.expenses") == [(5, "SEK")]
    assert [each["id"] for each in linked.json("schedule", "list", "--user", "anna")["items"]] == [schedule["id"]]
    assert linked.json("schedule", "list", "--user", "cia")["items"] == []  # who is not linked
    assert linked.output("verify").endswith("0 differences, 0 violations\n")
    assert users_of(admin) == before


def test_a_person_who_is_not_linked_is_told_how(linked: CommandLine, admin: Admin) -> None:
    refused = linked.error("schedule", "add", "Rent", "--user", "cia", "--rule", "cron: 0 10 1 * *")
    assert isinstance(refused, NotFound)
    assert 'cia is not linked to a user of "user".users' in str(refused)
    assert "duly people link cia ID" in str(refused)


def test_a_link_needs_a_user_that_exists_and_is_no_other_persons(linked: CommandLine, admin: Admin) -> None:
    unknown = linked.error("people", "link", "cia", 6)
    assert (type(unknown), str(unknown)) == (NotFound, 'there is no user 6 in "user".users')
    taken = linked.error("people", "link", "cia", 5)
    assert (type(taken), str(taken)) == (Conflict, "this user is linked to another person")
    assert isinstance(linked.error("people", "link", "dan", 7), NotFound)
    assert linked.json("people", "link", "anna", 7)["user_id"] == 7  # there is no schedule under the old one
    run_sql(admin, SCHEDULE, 7)
    kept = linked.error("people", "link", "anna", 5)
    assert (type(kept), str(kept)) == (Conflict, "the person has schedules under the user they are linked to")


def test_a_user_with_a_schedule_and_no_link_is_a_person_whose_place_a_link_takes(
    linked: CommandLine, admin: Admin
) -> None:
    ((schedule,),) = run_sql(admin, SCHEDULE, 7)
    assert run_sql(admin, "select uid from duly.person where user_id = 7") == [("user:7",)]
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        run_sql(admin, SCHEDULE, 6)
    admin.execute(
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at) values (%s, 'p', duly.clock())", [schedule]
    )
    linked.run_worker("scheduler")
    assert run_sql(admin, "select recipient, status from duly.outbox") == [("user:7", "pending")]
    assert linked.json("people", "link", "cia", 7)["user_id"] == 7
    assert run_sql(admin, "select recipient from duly.outbox") == [("cia",)]
    assert run_sql(admin, "select uid from duly.person where uid = 'user:7'") == []
    assert linked.json("schedule", "show", schedule)["uid"] == "cia"
    assert linked.output("verify").endswith("0 differences, 0 violations\n")


def test_the_scheduler_comes_and_goes_beside_the_users(linked: CommandLine, admin: Admin) -> None:
    before = users_of(admin)
    assert "scheduler_0001" not in go(admin, to="scheduler@base")
    admin.execute('delete from "user".users where id = 7')
    admin.execute("update duly.person set user_id = 7 where uid = 'cia'")
    assert go(admin, "scheduler") == newest_revisions()
    linked_to = run_sql(admin, "select uid, user_id from duly.person order by uid")
    assert linked_to == [("anna", 5), ("cia", None)]  # the user is gone
    assert [line for line in users_of(admin) if "bo@" not in line] == [line for line in before if "bo@" not in line]
    go(admin, to="engine@base")
    assert [line for line in users_of(admin) if "bo@" not in line] == [line for line in before if "bo@" not in line]


def test_where_duly_made_the_table_every_person_has_a_row_whatever_came_first(admin: Admin, owner: str) -> None:
    admin.execute('drop schema "user" cascade')
    go(admin, "none")
    admin.execute("insert into duly.person (uid) values ('anna')")
    go(admin, "scheduler")
    admin.execute("insert into duly.person (uid) values ('bo')")
    admin.execute('insert into "user".users (id) values (9)')
    run_sql(admin, SCHEDULE, 9)
    admin.execute("insert into duly.person (uid) select 'p' || n from generate_series(1, 9) as n")
    linked_ids = run_sql(admin, "select uid, user_id from duly.person where uid !~ '^p' order by uid")
    assert linked_ids == [("anna", 1), ("bo", 2), ("user:9", 9)]
    assert run_sql(admin, 'select count(*) from "user".users as u join duly.person as p on p.user_id = u.id') == [(12,)]
    assert differences(admin) == []
    go(admin, to="scheduler@base")
    assert run_sql(admin, "select count(user_id) from duly.person") == [(0,)]
    assert run_sql(admin, """select to_regclass('"user".users')""") == [(None,)]
    go(admin, "scheduler")
    assert run_sql(admin, 'select count(*) from "user".users as u join duly.person as p on p.user_id = u.id') == [(12,)]
    assert [each for name in installed_contracts(admin) for each in compare(admin, name, Names())] == []
    assert migrate(admin.info.dsn, Names()) == ("engine_0001", "scheduler_0001")
