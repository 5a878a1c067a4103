"""Render state machines into the `guards.sql` of their packages, by the templates in this directory.

`python -m tools.generate` writes the files.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import LiteralString, cast

from psycopg import sql

from duly.db.queries import parse_queries
from tools.state_machines.model import StateMachine, Verified

WIDTH = 120  # of a line
# A line may break before a condition and after a comma, but not in a literal or between two bounds.
BREAK = re.compile(r"'[^']*'|between \S+ and|(?P<at> (?=(?:and|or|when|else)\b)|(?<=,) )")
NEW = re.compile(r"\bnew\.")
GUARDS = ("guard", "guard_insert", "guard_update", "guard_columns")
TEMPLATES = parse_queries(Path(__file__).with_name("guards.sql").read_text())


def render_state_machine(machine: StateMachine) -> str:
    """Render the triggers that enforce and log this state machine."""
    values = dict(template_values(machine))
    names = (
        ("guard", "verifying_guard_triggers", "verifying_timeline") if machine.verified else ("guard", "guard_trigger")
    )
    return "\n\n".join(
        sql.SQL(literal("\n".join(template_lines(name)))).format(**values).as_string(None) + ";"
        for name in (*names, "timeline")
    )


def template_lines(name: str) -> list[str]:
    """Return a template as lines, without its comments."""
    return [line for line in TEMPLATES[name].splitlines() if not line.startswith("--")]


def template_values(machine: StateMachine) -> Iterator[tuple[str, sql.Composable]]:
    """Yield what replaces the braces of `guards.sql`."""
    schema, table = machine.table
    yield "schema", sql.Identifier(schema)
    yield "table", sql.Identifier(table)
    for part in (*GUARDS, "timeline", "timeline_insert", "timeline_update"):
        yield part, sql.Identifier(f"{table}_{part}")
    yield "name", sql.Literal(machine.name)
    yield "key", sql.Identifier(machine.key)
    yield "state", sql.Identifier(machine.state)
    yield "initial", sql.SQL("array[{}]").format(sql.SQL(", ").join(map(sql.Literal, machine.initial)))
    yield (
        "edges",
        sql.SQL("\n        ").join(
            sql.SQL("when {} then new.{}::text = any (array[{}])").format(
                sql.Literal(before), sql.Identifier(machine.state), sql.SQL(", ").join(map(sql.Literal, after))
            )
            for before, after in machine.edges.items()
        ),
    )
    conditions = [each.as_string(None) for each in render_transition_conditions(machine)]
    yield "is_transition", wrap(" or ".join(conditions) or "false", indent=8)
    yield "declare", sql.SQL("\ndeclare\n    broken_rule text;" if machine.rules else "")
    yield "immutable", render_immutable(machine)
    yield "at_insert", render_steps(machine.at_insert, indent=8)
    yield "at_other_update", render_steps(machine.at_other_update, indent=8)
    derived = tuple(f"new.{column} := {each.value};" for column, each in machine.derived.items())
    yield "at_transition", render_steps((*machine.at_transition, *derived), indent=8)
    yield "insert_timeline", sql.Identifier(f"{table}_timeline{'_insert' if machine.verified else ''}")
    if machine.verified:
        yield from verified_values(machine, machine.verified)
    yield "rules", render_rules(machine)
    yield (
        "settings",
        sql.SQL(literal("".join(f" set {name} = {value}" for name, value in machine.log.settings.items()))),
    )
    yield "log", sql.SQL(literal(machine.log.table))
    yield "columns", sql.SQL(literal(", ".join(machine.log.columns)))
    values = [value.as_string(None) for value in render_log_values(machine)]
    yield "values", wrap(", ".join(values), indent=8)


def render_transition_conditions(machine: StateMachine) -> Iterator[sql.Composable]:
    """Yield the conditions that make an update a transition although the state stays."""
    if machine.leased_state and machine.owner:
        yield sql.SQL("(old.{state}::text = {leased_state} and new.{owner} is distinct from old.{owner})").format(
            state=sql.Identifier(machine.state),
            leased_state=sql.Literal(machine.leased_state),
            owner=sql.Identifier(machine.owner),
        )
    if machine.transition_if:
        yield sql.SQL(literal(f"({machine.transition_if})"))


def render_immutable(machine: StateMachine) -> sql.Composable:
    """Render the branch of the guard that refuses to change immutable columns, if there are any."""
    if not machine.immutable:
        return sql.SQL("")
    news, olds = (", ".join(f'{row}."{column}"' for column in machine.immutable) for row in ("new", "old"))
    return render_lines("immutable").format(
        name=sql.Literal(machine.name),
        key=sql.Identifier(machine.key),
        news=wrap(news, indent=8),
        olds=wrap(olds, indent=8),
        columns=sql.Literal(", ".join(machine.immutable)),
    )


def render_steps(steps: tuple[str, ...], *, indent: int) -> sql.Composable:
    """Render further statements of the guard, one per line."""
    lines = ("\n" + " " * indent + wrap_text(step, indent + step_indent(step)) for step in steps)
    return sql.SQL(literal("".join(lines)))


def step_indent(step: str) -> int:
    """Return how far a line of a statement is indented, and its continuation with it."""
    return len(step) - len(step.lstrip())


def render_rules(machine: StateMachine) -> sql.Composable:
    """Render the rules of a row, which the guard checks last."""
    if not machine.rules:
        return sql.SQL("")
    return render_lines("rules").format(
        name=sql.Literal(machine.name),
        key=sql.Identifier(machine.key),
        each=sql.SQL(literal("\n        ".join(render_rule(name, rule) for name, rule in machine.rules.items()))),
    )


def render_rule(name: str, rule: str, indent: int = 8) -> str:
    """Render one rule of a row with its name, on a line of its own if it fits."""
    line = f"when ({rule}) is false then '{name}'"
    if len(line) <= WIDTH - indent:
        return line
    begin = "\n" + " " * indent
    return f"when ({begin}    {wrap_text(rule, indent + 4)}{begin}) is false then '{name}'"


def render_lines(name: str) -> sql.SQL:
    """Return a template without its comments, as lines of the guard."""
    return sql.SQL(literal("".join("\n    " + line for line in template_lines(name)) + ";"))


def verified_values(machine: StateMachine, verified: Verified) -> Iterator[tuple[str, sql.Composable]]:
    """Yield what replaces the braces of the templates for rows that may pass the guard."""
    yield "insert_is_exact", render_conditions(insert_conditions(machine, verified))
    yield "update_is_exact", render_conditions(update_conditions(machine, verified))
    edges = (f"({edge_condition(machine, before, after)})" for before, after in verified.edges)
    yield "is_verified_edge", sql.SQL(literal("\n        or ".join(edges)))
    yield "guarded_columns", wrap(", ".join(f'"{column}"' for column in verified.guarded_columns), indent=8)
    rules = (render_rule(name, NEW.sub("", rule), 12) for name, rule in machine.rules.items())
    yield "broken_rule", sql.SQL(literal("\n            ".join(rules)))


def insert_conditions(machine: StateMachine, verified: Verified) -> Iterator[str]:
    """Yield what makes a new row one that the guard would not change."""
    initial = ", ".join(f"'{state}'" for state in machine.initial)
    yield f'new."{machine.state}" in ({initial})'
    yield "new.revision = 1"
    yield "new.transition_from is null"
    yield from verified.insert_if


def update_conditions(machine: StateMachine, verified: Verified) -> Iterator[str]:
    """Yield what makes an updated row one that the guard would neither change nor refuse."""
    for before, after in verified.edges:
        assert machine.allows(before, after), f"{machine.name} cannot go from {before} to {after}"
    edges = (
        "\n            and ".join(
            [edge_condition(machine, before, after), f"new.transition_from = '{before}'", *conditions]
        )
        for (before, after), conditions in verified.edges.items()
    )
    separator = "\n            or "
    yield f"(\n            {separator.join(edges)}\n        )"
    yield "new.revision = old.revision + 1"
    for column, each in machine.derived.items():
        yield each.check or f"new.{column} is not distinct from {each.value}"
    yield from verified.update_if


def edge_condition(machine: StateMachine, before: str, after: str) -> str:
    """Return what makes an update one along this edge."""
    return f"old.\"{machine.state}\" = '{before}' and new.\"{machine.state}\" = '{after}'"


def render_conditions(conditions: Iterable[str]) -> sql.Composable:
    """Render conditions that must all be true, each on a line of its own."""
    lines = (each if "\n" in each else wrap_text(each, 8) for each in conditions)
    return sql.SQL(literal("\n        and ".join(lines)))


def wrap(text: str, *, indent: int) -> sql.Composable:
    """Wrap an expression that begins at this indentation."""
    return sql.SQL(literal(wrap_text(text, indent)))


def wrap_text(text: str, indent: int) -> str:
    """Break a text that is too long for a line between words, never inside a literal; go on four columns further in."""
    if indent + len(text.lstrip()) <= WIDTH or "--" in text:
        return text
    ends = [found.start() for found in BREAK.finditer(text) if found["at"]]
    starts = [0, *(end + 1 for end in ends)]
    first, *rest = (text[start:end] for start, end in zip(starts, [*ends, len(text)], strict=True))
    lines = [first]
    for part in rest:
        if indent + (4 if len(lines) > 1 else 0) + len(lines[-1]) + 1 + len(part) > WIDTH:
            lines.append(part)
        else:
            lines[-1] += f" {part}"
    return ("\n" + " " * (indent + 4)).join(lines)


def render_log_values(machine: StateMachine) -> Iterator[sql.Composable]:
    """Yield the expressions for the columns of the log."""
    own = {
        "name": sql.Literal(machine.name),
        "key": sql.Identifier(machine.key),
        "state": sql.Identifier(machine.state),
        "actor": sql.SQL(literal(machine.actor)),
        "detail": sql.SQL(literal(machine.detail)),
    }
    for value in machine.log.columns.values():
        yield sql.SQL(literal(value)).format(**own)


def literal(text: str) -> LiteralString:
    """Mark SQL text that comes from our files or from a state machine's description, never from a caller."""
    return cast("LiteralString", text)
