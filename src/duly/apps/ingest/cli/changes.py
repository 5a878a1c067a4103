"""Shifts and their changes, as the commands of `duly ingest` print them."""

from collections.abc import Sequence
from datetime import date

from rich.console import Console
from rich.text import Text

from duly.apps.ingest.diff import EventType, ShiftChange
from duly.apps.ingest.model import ShiftEvent
from duly.apps.ingest.notifications import format_change
from duly.apps.ingest.shift import FIELDS, Shift, shift_from_json
from duly.cli.output import single_line

MARKS = {EventType.ADDED: ("+", "green"), EventType.REMOVED: ("-", "red")}
CHANGED = ("~", "yellow")


def change_from_event(event: ShiftEvent) -> ShiftChange:
    """Convert a stored event to the change that it records."""
    old, new = event.old_value, event.new_value
    return ShiftChange(
        EventType(event.event_type), shift_from_json(old) if old else None, shift_from_json(new) if new else None
    )


def change_to_document(change: ShiftChange, day: date) -> dict[str, object]:
    """Convert a change to JSON fields."""
    return {
        "type": change.type,
        "sentence": format_change(day, change),
        "old": change.old.document if change.old else None,
        "new": change.new.document if change.new else None,
    }


def print_changes(changes: Sequence[ShiftChange], day: date) -> None:
    """Print each change as a sentence and, for a shift that was changed, its fields that differ."""
    for change in changes:
        mark, style = MARKS.get(change.type, CHANGED)
        print_change_line(mark, style, single_line(format_change(day, change)))
        if change.old and change.new:
            for name in FIELDS:
                old, new = getattr(change.old, name), getattr(change.new, name)
                if old != new and not name.endswith("_fingerprint"):
                    text = f"    {name}: {single_line(old or 'nothing')} → {single_line(new or 'nothing')}"
                    print_change_line(" ", "dim", text)


def print_change_line(mark: str, style: str, text: str) -> None:
    """Print a line in a colour, if standard output shows colours."""
    Console(highlight=False, soft_wrap=True).print(Text(f"  {mark} {text}", style=style))


def format_shift(shift: Shift) -> str:
    """Format a shift on one line."""
    street = " ".join(filter(None, (shift.street, shift.street_number)))
    address = ", ".join(filter(None, (street, shift.city)))
    parts = filter(None, (shift.customer_name, shift.raw_type_label or shift.shift_type.lower(), address))
    return f"{shift.start}\N{EN DASH}{shift.end}  {single_line(', '.join(parts))}"
