"""Databases that tests borrow: emptying one that was used costs a tenth of what a clone does.

    lend --> a spare one, or a clone of the template
      |            |
      |         the test
      |            |
      <---- renamed, emptied     where its catalogue is as it was; any other is dropped

A database that is lent has no connections, and a leftover client does not know its new name. What is emptied: rows,
sequences, estimates of the planner and statistics. What is not looked at, because tests leave it alone: prepared
transactions and replication slots.
"""

import itertools
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import make_conninfo

from duly.db.admin import clone_database, drop_database, rename_database
from duly.testing import TestDatabases

Admin = psycopg.Connection[Any]
MAX_BYTES = 2_000_000  # a table or index that grew beyond keeps its shape when emptied: the next test would notice

NUMBERS = itertools.count(1)  # of all lenders of this process

# Whatever changes the catalogue leaves a younger row in one of these, or one row less. (`age` is a number, and cheap.)
CATALOGUES: tuple[LiteralString, ...] = (
    "pg_attrdef",
    "pg_attribute",
    "pg_class",
    "pg_constraint",
    "pg_default_acl",
    "pg_description",
    "pg_enum",
    "pg_event_trigger",
    "pg_extension",
    "pg_index",
    "pg_inherits",
    "pg_largeobject_metadata",
    "pg_namespace",
    "pg_partitioned_table",
    "pg_policy",
    "pg_proc",
    "pg_publication",
    "pg_rewrite",
    "pg_statistic",
    "pg_statistic_ext",
    "pg_trigger",
    "pg_type",
)
COUNT_AND_AGE: LiteralString = ", count(*), coalesce(age('10'::xid) - min(age(xmin)), 0) from pg_catalog."
CATALOGUE: LiteralString = " union all ".join("select '" + name + "'" + COUNT_AND_AGE + name for name in CATALOGUES)
RELATIONS: LiteralString = "select 'pg_class'" + COUNT_AND_AGE + "pg_class"  # the one that emptying changes
DATABASE_SETTINGS = """
select d.datacl::text, d.datconnlimit, d.datallowconn, d.datistemplate, s.setrole, s.setconfig
from pg_catalog.pg_database as d left join pg_catalog.pg_db_role_setting as s on s.setdatabase = d.oid
where d.datname = current_database()
order by s.setrole
"""
OUR_RELATIONS: LiteralString = (
    r"c.relnamespace in (select oid from pg_catalog.pg_namespace where nspname !~ '^pg_(?!toast)|^info')"
)
TABLES = f"""
select c.oid::regclass::text, pg_catalog.pg_total_relation_size(c.oid) from pg_catalog.pg_class as c
where c.relkind = 'r' and {OUR_RELATIONS} and pg_catalog.pg_relation_size(c.oid) > 0
"""
SEQUENCES = f"""
select c.oid::regclass::text, s.seqstart, pg_catalog.pg_sequence_last_value(c.oid)
from pg_catalog.pg_class as c join pg_catalog.pg_sequence as s on s.seqrelid = c.oid where {OUR_RELATIONS}
"""
ESTIMATES = (
    f"select c.oid, c.relpages, c.reltuples, c.relallvisible from pg_catalog.pg_class as c where {OUR_RELATIONS}"
)
RESTORE_ESTIMATES = """
update pg_catalog.pg_class as c
set relpages = was.relpages, reltuples = was.reltuples, relallvisible = was.relallvisible
from unnest(%s::oid[], %s::int[], %s::real[], %s::int[]) as was (oid, relpages, reltuples, relallvisible)
where was.oid = c.oid
"""
TERMINATE_BACKENDS = """
select pg_catalog.pg_terminate_backend(pid, 10000) from pg_catalog.pg_stat_activity
where datname = %s and pid <> pg_catalog.pg_backend_pid()
"""
COPY_SETTINGS = "set session_replication_role = replica; set allow_system_table_mods = on; set lock_timeout = '5s'"


@dataclass(frozen=True)
class State:
    """What a database is like when nothing has happened in it."""

    catalogue: Mapping[str, Sequence[object]]
    rows: Mapping[str, bytes]
    sequences: Mapping[str, tuple[int, int | None]]
    estimates: Mapping[int, tuple[object, ...]]


class DatabasePool:
    """Databases like one template, for one test at a time."""

    def __init__(self, databases: TestDatabases, owner: str) -> None:
        self.databases = databases
        self.names = (f"{databases.template}_{owner}_{number}" for number in NUMBERS)
        self.spare: dict[str, State] = {}

    @contextmanager
    def borrow(self) -> Generator[str, None, None]:
        """The address of a database in which nothing has happened yet."""
        name, state = self.spare.popitem() if self.spare else self.clone()
        try:
            yield self.address(name)
        finally:
            self.return_database(name, state)

    def clone(self) -> tuple[str, State]:
        """A new one, and what it is like."""
        name = next(self.names)
        with self.server() as server:
            clone_database(server, self.databases.template, name)
        with self.connect_to(name) as admin:
            return name, read_state(admin)

    def return_database(self, name: str, state: State) -> None:
        """Keep it under another name if it can be emptied; drop it if it cannot."""
        new_name = next(self.names)
        with self.server() as server:
            try:
                server.execute(TERMINATE_BACKENDS, [name])
                rename_database(server, name, new_name)
            except psycopg.Error:  # the test dropped it, or a client reconnected at once
                drop_database(server, name)
                return
            with suppress(psycopg.Error), self.connect_to(new_name) as admin:
                if reset_database(admin, state):
                    self.spare[new_name] = replace(state, catalogue={**state.catalogue, **read_relations(admin)})
                    return
            drop_database(server, new_name)

    def close(self) -> None:
        """Drop what is not lent."""
        with suppress(psycopg.OperationalError), self.server() as server:
            while self.spare:
                drop_database(server, self.spare.popitem()[0])

    def address(self, name: str) -> str:
        """Where a database is."""
        return make_conninfo(self.databases.dsn, dbname=name)

    def server(self) -> Admin:
        """A connection to the server, beside the databases that are lent."""
        return psycopg.connect(self.databases.dsn, autocommit=True)

    def connect_to(self, name: str) -> Admin:
        """A connection to one of them."""
        return psycopg.connect(self.address(name), autocommit=True, options="-c jit=off")


def read_state(admin: Admin) -> State:
    """What a database is like now."""
    return State(
        catalogue=read_catalogue(admin),
        rows={table: read_rows(admin, table) for table, _ in admin.execute(TABLES)},
        sequences={name: (start, last) for name, start, last in admin.execute(SEQUENCES)},
        estimates={oid: tuple(rest) for oid, *rest in admin.execute(ESTIMATES)},
    )


def read_catalogue(admin: Admin) -> dict[str, Sequence[object]]:
    """How large each table of the catalogue is and how young, and what is set for the database as a whole."""
    return {"": admin.execute(DATABASE_SETTINGS).fetchall(), **read_relations(admin, CATALOGUE)}


def read_relations(admin: Admin, query: LiteralString = RELATIONS) -> dict[str, Sequence[object]]:
    """How large some tables of the catalogue are, and how young."""
    return {name: (rows, youngest) for name, rows, youngest in admin.execute(query)}


def read_rows(admin: Admin, table: str) -> bytes:
    """All rows of a table."""
    with admin.cursor().copy(f"copy {table} to stdout".encode()) as copy:
        return b"".join(map(bytes, copy))


def reset_database(admin: Admin, state: State) -> bool:
    """Bring a database back to a state; no, if its catalogue is another one, or it has grown."""
    if read_catalogue(admin) != state.catalogue:
        return False
    used: dict[str, int] = dict(admin.execute(TABLES).fetchall())
    if max(used.values(), default=0) > MAX_BYTES:
        return False
    admin.execute(COPY_SETTINGS)
    changed = [table for table in used if table not in state.rows or read_rows(admin, table) != state.rows[table]]
    for table in changed:
        admin.execute(f"delete from {table}".encode())
    if changed:
        admin.execute(f"vacuum {', '.join(changed)}".encode())
    for table in {*changed, *(state.rows.keys() - used.keys())} & state.rows.keys():
        with admin.cursor().copy(f"copy {table} from stdin".encode()) as copy:
            copy.write(state.rows[table])
    for name, start, last in admin.execute(SEQUENCES).fetchall():
        if last != (was := state.sequences[name][1]):
            admin.execute("select setval(%s::regclass, %s, %s)", [name, was or start, was is not None])
    now = {oid: tuple(rest) for oid, *rest in admin.execute(ESTIMATES)}
    if other := [(oid, *was) for oid, was in state.estimates.items() if now.get(oid) != was]:
        admin.execute(RESTORE_ESTIMATES, [list(column) for column in zip(*other, strict=True)])
    admin.execute("select pg_catalog.pg_stat_force_next_flush()")  # what we did ourselves
    admin.execute("select pg_catalog.pg_stat_reset()")
    return True
