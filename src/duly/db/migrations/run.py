"""What a revision runs: files of SQL in the migration that Alembic has open, or printed by `--sql`."""

from dataclasses import asdict

from alembic import context
from sqlalchemy import text

from duly.db.migrations import BASE_FUNCTIONS, Names, fill, read_file, split_statements
from duly.db.migrations.objects import GRANTS, name_object, schema_values


def run_file(name: str) -> None:
    """Run one file of the `sql` directory in the current migration."""
    names: Names = context.config.attributes["names"]
    run_script(fill(read_file(name), asdict(names)))


def run_after_functions(name: str) -> None:
    """Run one file of the `sql` directory at the end of the migration, when functions and guards are there."""
    context.config.attributes.setdefault("after_functions", []).append(name)


def run_base_functions() -> None:
    """Create the functions that defaults and checks of tables call."""
    names: Names = context.config.attributes["names"]
    for statement in split_statements(fill(BASE_FUNCTIONS.read_text(), asdict(names))):
        if name_object(statement) != GRANTS:
            run_script(statement)


def drop_functions(branch: str) -> None:
    """Drop the functions of a branch that nothing depends on."""
    names: Names = context.config.attributes["names"]
    run_script(fill(read_file("drop_functions.sql"), schema_values(names, [branch])))


def run_script(script: str) -> None:
    """Run a script in the current migration, or print it; an error names the statement that failed."""
    for statement in split_statements(script):
        if context.is_offline_mode():
            context.execute(text(statement.replace(":", r"\:")))  # a colon is part of the SQL here, not a parameter
        else:
            context.get_bind().exec_driver_sql(statement, execution_options={"no_parameters": True})
