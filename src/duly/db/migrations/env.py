"""Alembic's entry point: `duly migrate` passes a connection; under `alembic` it opens one itself."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from alembic import command, context
from alembic.runtime.migration import MigrationContext, MigrationStep
from sqlalchemy import Connection, text

from duly.db.location import direct_dsn, open_database
from duly.db.migrate import installed_branches, migration_transaction, targets_for
from duly.db.migrations import BRANCHES, Names, fill, names_from_settings, prelude, read_file
from duly.db.migrations.objects import forget_statement, known_hashes_query, update_statements
from duly.db.migrations.run import run_script
from duly.settings import load_settings

SHOW_REVISION = "grant select on duly.alembic_version to {worker}, {api}, {readonly}"  # `duly doctor` reads it
OPTIONS: dict[str, Any] = {"version_table_schema": "duly", "transaction_per_migration": False}
ALL_HEADS = ("head", "heads")  # `alembic upgrade head` means every branch, although there are several heads


def run(connection: Connection, names: Names) -> None:
    """Migrate through this connection, in the one transaction it has open; commands that only read change nothing."""
    targets = find_targets(connection, names)
    context.configure(connection=connection, **OPTIONS, **upgrade_to(targets))
    if context.get_context().opts.get("dont_mutate"):  # `alembic current`
        context.run_migrations()
        return
    run_script(prelude(names, target_branches(targets)))
    with context.begin_transaction():
        context.run_migrations()
        installed = installed_branches(context.get_context().get_current_heads())
        for branch in installed:
            known = {row[0]: row[1] for row in connection.exec_driver_sql(known_hashes_query(branch))}
            run_statements(update_statements(branch, names, known))
        run_script(forget_statement(installed))
        finish(names)


def print_sql(names: Names) -> None:
    """Print the SQL of a migration instead of running it."""
    targets = find_targets(None, names)
    context.configure(
        dialect_name="postgresql",
        dialect_opts={"paramstyle": "named"},
        output_buffer=sys.stdout,
        **OPTIONS,
        **upgrade_to(targets),
    )
    with context.begin_transaction():
        run_script(prelude(names, target_branches(targets)))
        context.run_migrations()
        for branch in target_branches(targets):
            run_statements(update_statements(branch, names, {}))
        finish(names)


def find_targets(connection: Connection | None, names: Names) -> Sequence[str]:
    """Return the revisions to upgrade to: those given by `duly migrate`, or every head; none for other commands."""
    if given := attributes.get("targets"):
        return given
    options = context.config.cmd_opts
    if options and options.cmd[0] is command.upgrade and options.revision in ALL_HEADS:
        return targets_for(connection, names, "all")
    return ()


def target_branches(targets: Sequence[str]) -> Sequence[str]:
    """List the branches of these revisions, the engine always among them."""
    named = [context.script.get_revision(target).branch_labels for target in targets]
    return [branch for branch in BRANCHES if branch == "engine" or any(branch in labels for labels in named)]


def upgrade_to(targets: Sequence[str]) -> Mapping[str, Any]:
    """Return the option that makes Alembic upgrade to several revisions at once."""

    def steps(current: Any, _context: MigrationContext) -> list[MigrationStep]:
        script = context.script
        found = [list(script.iterate_revisions(target, current, implicit_base=True)) for target in targets]
        ordered = dict.fromkeys(each for several in found for each in reversed(several))
        return [MigrationStep.upgrade_from_script(script.revision_map, each) for each in ordered]

    return {"fn": steps} if targets else {}


def run_statements(statements: Any) -> None:
    """Run statements one after the other."""
    for statement in statements:
        run_script(statement)


def finish(names: Names) -> None:
    """Run what needs the functions and guards, and let our roles see the revision."""
    for name in attributes.get("after_functions", ()):
        run_script(fill(read_file(name), asdict(names)))
    context.execute(text(fill(SHOW_REVISION, asdict(names))))


attributes = context.config.attributes
names: Names = attributes.setdefault("names", names_from_settings(load_settings()))
if context.is_offline_mode():
    print_sql(names)
elif given_connection := attributes.get("connection"):
    run(given_connection, names)
else:
    settings = load_settings()
    with open_database(settings) as database, migration_transaction(direct_dsn(settings, database)) as connection:
        run(connection, names)
