"""State machines as data, enforced and logged by triggers of the database.

A `StateMachine` is rendered into the `guards.sql` of its package: a trigger that refuses every transition it does not
list, and triggers that log every transition, whichever program makes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

ILLEGAL_TRANSITION = "DU001"  # the SQLSTATE of a refused transition


@dataclass(frozen=True)
class TransitionLog:
    """The table that transitions are logged in, and the SQL expression for each of its columns.

    Expressions are over the new row; `{name}`, `{key}`, `{state}`, `{actor}` and `{detail}` stand for the machine's.
    """

    table: str
    columns: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict[str, str])  # server settings while it is written


TRANSITION = TransitionLog(
    table="duly.transition",
    columns={
        "machine": "{name}",
        "key": "{key}::text",
        "seq": "revision",
        "ts": "duly.clock()",
        "prev_status": "transition_from",
        "next_status": "{state}::text",
        "actor": "{actor}",
        "detail_json": "{detail}",
    },
)


@dataclass(frozen=True)
class Derived:
    """The value that the guard gives a column at a transition.

    A statement may write the column itself; `check` tells whether it wrote this value, by default by comparing.
    """

    value: str  # SQL over old and new
    check: str | None = None  # SQL over old and new


@dataclass(frozen=True)
class Verified:
    """What statements may write in full: the guard is called only for rows that it would change.

    Updates pass under conditions that imply the rules. New rows meet the rules when they are logged, before their
    statement ends.
    """

    insert_if: tuple[str, ...]  # SQL over new: further conditions of an insert that may pass
    edges: Mapping[tuple[str, str], tuple[str, ...]]  # SQL over old and new: conditions of each, and of all
    update_if: tuple[str, ...]
    guarded_columns: tuple[str, ...]  # an update that names one of these does not pass


@dataclass(frozen=True)
class StateMachine:
    """The states of one table and the transitions between them."""

    name: str  # what the log calls a row
    table: tuple[str, str]
    state: str
    initial: tuple[str, ...]
    edges: Mapping[str, tuple[str, ...]]
    key: str = "id"
    leased_state: str | None = None  # in this state a change of `owner` counts as a transition
    owner: str | None = None
    immutable: tuple[str, ...] = ()  # columns that cannot change after the insert
    transition_if: str | None = None  # SQL over old and new: further changes that count as a transition
    actor: str = "null::text"  # SQL over the new row: who made the transition
    detail: str = "null::jsonb"  # SQL over the new row: details for the log
    log: TransitionLog = TRANSITION
    rules: Mapping[str, str] = field(default_factory=dict[str, str])  # by name, SQL over new that must not be false
    at_insert: tuple[str, ...] = ()  # further PL/pgSQL statements of the guard: at an insert,
    at_other_update: tuple[str, ...] = ()  # at an update without a transition,
    at_transition: tuple[str, ...] = ()  # and at a transition,
    derived: Mapping[str, Derived] = field(default_factory=dict[str, Derived])  # followed by these columns, in order
    verified: Verified | None = None

    def states(self) -> tuple[str, ...]:
        """Return every state, in the order of declaration."""
        declared = (*self.initial, *self.edges, *(to for several in self.edges.values() for to in several))
        return tuple(dict.fromkeys(declared))

    def allows(self, before: str | None, after: str) -> bool:
        """Return whether a transition is allowed; None as `before` means an insert."""
        return after in (self.initial if before is None else self.edges.get(before, ()))
