"""The text that replaces a reminder once its run is answered or closed, in the person's language."""

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from duly.apps.scheduler.messages import translate
from duly.apps.scheduler.model import Action, Receipt, Run
from duly.apps.scheduler.reasons import describe_reason


def receipt_text(run: Run, receipt: Receipt, zone: str, language: str) -> str:
    """Return the run and what the answer did to it; the same receipt always gives the same text."""
    lines = [*heading_lines(run, zone, language), receipt_line(receipt, zone, language)]
    if receipt.expense:
        lines.append(translate(language, "receipt.booked", **receipt.expense))
    return "\n".join(lines)


def receipt_line(receipt: Receipt, zone: str, language: str) -> str:
    """Return what the answer did, in one line."""
    at = format_local_time(receipt.confirmed_at, zone)
    until = format_local_time(receipt.remind_at or receipt.confirmed_at, zone)
    return translate(language, f"receipt.{receipt.action}", at=at, until=until)


def closed_text(run: Run, zone: str, language: str) -> str:
    """Return a run that ended without an answer, and why."""
    closed = translate(language, "receipt.closed", reason=describe_reason(run.reason, language))
    return "\n".join([*heading_lines(run, zone, language), closed])


def find_closing_receipt(receipts: Sequence[Receipt]) -> Receipt | None:
    """Return the receipt of the answer that closed a run; a snooze closes none."""
    return next((each for each in receipts if each.action is not Action.SNOOZE), None)


def heading_lines(run: Run, zone: str, language: str) -> list[str]:
    """Return which run it is: its name and time."""
    at = format_local_time(run.scheduled_at, zone)
    return [run.name, translate(language, "reminder.due", at=at, zone=zone), ""]


def format_local_time(at: datetime, zone: str) -> str:
    """Format an instant in a time zone."""
    return at.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M")
