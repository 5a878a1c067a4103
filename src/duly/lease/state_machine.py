"""State machines as data: declared once, enforced by the database, written down by the database.

From a `Machine` come a trigger that refuses every edge that is not drawn, and triggers that write one line of the log
per transition. Whoever writes, in whichever language, goes through them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from psycopg import sql

from duly.db.queries import parse_queries
from duly.lease.operations import literal

__all__ = ["ILLEGAL_MOVE", "TRANSITION", "Log", "Machine", "render_machine"]

ILLEGAL_MOVE = "DU001"  # the SQLSTATE of a refused edge
TEMPLATES = parse_queries(Path(__file__).with_name("state_machine.sql").read_text())


@dataclass(frozen=True)
class Log:
    """Where transitions are written down: a table, and what goes into each of its columns.

    That is SQL over the new row, in which `{name}`, `{key}`, `{state}`, `{actor}` and `{detail}` are the machine's.
    """

    table: str
    columns: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict[str, str])  # of the server, while it is written


TRANSITION = Log(
    table="duly.transition",
    columns={
        "machine": "{name}",
        "key": "{key}::text",
        "seq": "revision",
        "prev_status": "moved_from",
        "next_status": "{state}::text",
        "actor": "{actor}",
        "detail_json": "{detail}",
    },
)


@dataclass(frozen=True)
class Machine:
    """The states of one table and the edges between them."""

    name: str  # what a row of it is called in the log
    table: tuple[str, str]
    state: str
    initial: tuple[str, ...]
    edges: Mapping[str, tuple[str, ...]]
    key: str = "id"
    held: str | None = None  # in this state a change of `owner` counts as a move
    owner: str | None = None
    fixed: tuple[str, ...] = ()  # columns that stay as they were written first
    moved: str | None = None  # SQL over old and new: progress was recorded
    actor: str = "null::text"  # SQL over the new row: who did it
    detail: str = "null::jsonb"  # SQL over the new row: what else to remember
    log: Log = TRANSITION
    rules: Mapping[str, str] = field(
        default_factory=dict[str, str]
    )  # by name, SQL over new: every row is so, or unknown
    at_insert: tuple[str, ...] = ()  # what the guard does besides, in its own language: when a row is made,
    at_stay: tuple[str, ...] = ()  # when it is changed and has not moved,
    at_move: tuple[str, ...] = ()  # and when it has

    def states(self) -> tuple[str, ...]:
        """Every state there is, in the order they are drawn."""
        drawn = (*self.initial, *self.edges, *(to for several in self.edges.values() for to in several))
        return tuple(dict.fromkeys(drawn))

    def allows(self, before: str | None, after: str) -> bool:
        """Is this edge drawn? None before means an insert."""
        return after in (self.initial if before is None else self.edges.get(before, ()))


def render_machine(machine: Machine) -> str:
    """The SQL that makes the database enforce and record this machine."""
    return "\n\n".join(
        sql.SQL(literal(text)).format(**dict(names_of(machine))).as_string(None) + ";" for text in templates()
    )


def templates() -> Iterator[str]:
    """The two parts, without their comments."""
    for name in ("guard", "timeline"):
        yield "\n".join(line for line in TEMPLATES[name].splitlines() if not line.startswith("--"))


def names_of(machine: Machine) -> Iterator[tuple[str, sql.Composable]]:
    """What stands in the braces of `machine.sql`."""
    schema, table = machine.table
    yield "schema", sql.Identifier(schema)
    yield "table", sql.Identifier(table)
    for part in ("guard", "timeline", "timeline_insert", "timeline_update"):
        yield part, sql.Identifier(f"{table}_{part}")
    yield "name", sql.Literal(machine.name)
    yield "key", sql.Identifier(machine.key)
    yield "state", sql.Identifier(machine.state)
    yield "initial", sql.SQL("array[{}]").format(sql.SQL(", ").join(map(sql.Literal, machine.initial)))
    yield (
        "edges",
        sql.SQL(" ").join(
            sql.SQL("when {} then new.{}::text = any (array[{}])").format(
                sql.Literal(before), sql.Identifier(machine.state), sql.SQL(", ").join(map(sql.Literal, after))
            )
            for before, after in machine.edges.items()
        ),
    )
    yield "moved", sql.SQL(" or ").join(moves_of(machine)) if list(moves_of(machine)) else sql.SQL("false")
    yield "fixed", fixed_of(machine)
    yield "at_insert", steps_of(machine.at_insert, indent=8)
    yield "at_stay", steps_of(machine.at_stay, indent=8)
    yield "at_move", steps_of(machine.at_move, indent=8)
    yield "rules", rules_of(machine)
    yield (
        "settings",
        sql.SQL(literal("".join(f" set {name} = {value}" for name, value in machine.log.settings.items()))),
    )
    yield "log", sql.SQL(literal(machine.log.table))
    yield "columns", sql.SQL(literal(", ".join(machine.log.columns)))
    yield "line", sql.SQL(", ").join(line_of(machine))


def moves_of(machine: Machine) -> Iterator[sql.Composable]:
    """What counts as a move although the state stays."""
    if machine.held and machine.owner:
        yield sql.SQL("(old.{state}::text = {held} and new.{owner} is distinct from old.{owner})").format(
            state=sql.Identifier(machine.state), held=sql.Literal(machine.held), owner=sql.Identifier(machine.owner)
        )
    if machine.moved:
        yield sql.SQL(literal(f"({machine.moved})"))


def fixed_of(machine: Machine) -> sql.Composable:
    """A step of the guard that refuses to change what is fixed, if anything is."""
    if not machine.fixed:
        return sql.SQL("")
    lines = [line for line in TEMPLATES["fixed"].splitlines() if not line.startswith("--")]
    return sql.SQL(literal("".join("\n    " + line for line in lines) + ";")).format(
        name=sql.Literal(machine.name),
        key=sql.Identifier(machine.key),
        news=sql.SQL(", ").join(sql.SQL("new.{}").format(sql.Identifier(each)) for each in machine.fixed),
        olds=sql.SQL(", ").join(sql.SQL("old.{}").format(sql.Identifier(each)) for each in machine.fixed),
        columns=sql.Literal(", ".join(machine.fixed)),
    )


def steps_of(steps: tuple[str, ...], *, indent: int) -> sql.Composable:
    """Steps of the guard, a line each, before it lets the row pass."""
    return sql.SQL(literal("".join("\n" + " " * indent + step for step in steps)))


def rules_of(machine: Machine) -> sql.Composable:
    """The rules of a row, as the last thing that the guard looks at."""
    if not machine.rules:
        return sql.SQL("")
    lines = [line for line in TEMPLATES["rules"].splitlines() if not line.startswith("--")]
    return sql.SQL(literal("".join("\n    " + line for line in lines) + ";")).format(
        name=sql.Literal(machine.name),
        key=sql.Identifier(machine.key),
        all=sql.SQL(" and ").join(
            sql.SQL("coalesce({}, true)").format(sql.SQL(literal(rule))) for rule in machine.rules.values()
        ),
        each=sql.SQL(" ").join(
            sql.SQL("when ({}) is false then {}").format(sql.SQL(literal(rule)), sql.Literal(name))
            for name, rule in machine.rules.items()
        ),
    )


def line_of(machine: Machine) -> Iterator[sql.Composable]:
    """What goes into the columns of the log."""
    own = {
        "name": sql.Literal(machine.name),
        "key": sql.Identifier(machine.key),
        "state": sql.Identifier(machine.state),
        "actor": sql.SQL(literal(machine.actor)),
        "detail": sql.SQL(literal(machine.detail)),
    }
    for value in machine.log.columns.values():
        yield sql.SQL(literal(value)).format(**own)
