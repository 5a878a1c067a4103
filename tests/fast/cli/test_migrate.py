"""`duly migrate`: down, where rows are dropped only after a yes; and as SQL."""

from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest

from duly.db.migrate import migrate
from duly.db.migrations import Names
from duly.errors import InvalidArgument
from duly.launcher import ROOT
from tests.support.command_line import CommandLine

ROWS = """
insert into duly.person (uid) values ('anna');
insert into posts.uploads (name, author_id) values ('temp/00000000-0000-0000-0000-000000000001.jpg', 'anna');
select ledger.enqueue('00000000-0000-0000-0000-00000000000a', 'work') from generate_series(1, 3);
insert into duly.orgs (name) values ('acme');
"""


@pytest.fixture
def cli(database: str, tmp_path: Path) -> Generator[CommandLine, None, None]:
    """The commands of a migrated database with three jobs and an org; in the end it has all its tables again."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(ROWS)
    yield CommandLine(database, tmp_path)
    migrate(database, Names(), apps="all")


def count_jobs(database: str) -> int | None:
    """The jobs there are; None where their table is gone."""
    with psycopg.connect(database) as connection:
        if connection.execute("select to_regclass('ledger.job')").fetchone() == (None,):
            return None
        (jobs,) = connection.execute("select count(*) from ledger.job").fetchone() or (None,)
        return jobs


def test_downgrade_that_drops_rows_without_a_terminal_needs_yes(cli: CommandLine, database: str) -> None:
    for arguments in (["migrate", "--to", "engine@base"], ["migrate", "--to", "engine@base", "--json"]):
        error = cli.error(*arguments)
        assert isinstance(error, InvalidArgument)
        assert error.exit_status == 2
        for part in ("--to engine@base drops ", "ledger.job 3, ", "ledger.job_event 3", "duly.orgs 1", "add --yes"):
            assert part in str(error)
    assert count_jobs(database) == 3


def test_downgrade_on_a_terminal_lists_the_rows_and_asks_for_confirmation(
    cli: CommandLine, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.cli.migrate.is_terminal", lambda: True)
    refused = cli.run("migrate", "--to", "posts@base", stdin="n\n")
    assert refused.exit_code == 1
    assert "           1  posts.uploads\n" in refused.stderr
    assert "ledger.job" not in refused.stderr  # that table stays
    assert "for good? [y/N]" in refused.stderr
    assert "posts_0001" in cli.output("migrate")
    assert "posts_0001" not in cli.output("migrate", "--to", "posts@base", stdin="y\n")
    assert count_jobs(database) == 3


def test_downgrade_with_yes_does_not_ask(cli: CommandLine, database: str) -> None:
    assert cli.output("migrate", "--to", "engine@base", "--yes") == "duly: the database is at base\n"
    assert count_jobs(database) is None


def test_upgrade_and_downgrade_of_empty_tables_do_not_ask(cli: CommandLine, database: str) -> None:
    assert cli.output("migrate").startswith("duly: the database is at ")
    assert cli.output("migrate", "--to", "ingest@base").endswith("engine_0001, posts_0001, scheduler_0001\n")
    assert cli.output("migrate").endswith("engine_0001, posts_0001, scheduler_0001\n")  # what is installed
    assert "ingest_0001" in cli.output("migrate", "--apps", "ingest")
    assert count_jobs(database) == 3


def test_migrate_sql_prints_the_sql_for_an_empty_database(cli: CommandLine) -> None:
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert "`duly migrate --sql` prints the SQL for an empty database and runs none" in readme
    assert "Print the SQL for an empty database" in cli.output("migrate", "--help")
    printed = cli.output("migrate", "--sql")  # of a database that has everything
    assert "create table ledger.job (" in printed
    assert printed.startswith("BEGIN;")
    assert "create table posts.posts (" not in cli.output("migrate", "--sql", "--apps", "none")
    assert "leave --to out" in str(cli.error("migrate", "--sql", "--to", "posts@base"))
