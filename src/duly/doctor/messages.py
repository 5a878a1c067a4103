"""What is to be said: does it go out?"""

from collections.abc import Sequence

from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.case import Case
from duly.doctor.finding import Note, ok, warn
from duly.settings import Settings

__all__ = ["check_messages"]

SQL = load_queries(__file__, "messages.sql")
LATE_SECONDS = 600.0
MAX_COUNTED = 10_000


def check_messages(case: Case) -> Sequence[Note]:
    """Do messages go out, and does somebody look at those of which nobody knows?"""
    if case.is_only_backends:
        return [ok("a backend delivers them")]
    row, days = count_messages(case), count_messages_about_days(case) if delivers_days(case) else None
    notes = [
        *notes_of(row, "", "outbox", ""),
        *(notes_of(days, "about days ", "notifications", " --days") if days else ()),
    ]
    if row["by_apprise"] and not case.settings.public_url:
        found = f"{row['by_apprise']} people are written to by apprise, and their messages have no links to answer by"
        notes.append(warn(found, "set DULY_PUBLIC_URL to where people reach the API"))
    return notes or [ok("none is late, uncertain or failed")]


def notes_of(row: Row, about: str, sender: str, option: str) -> list[Note]:
    """What is not well with the messages of one table, which this sender sends and a command with this option shows."""
    notes: list[Note] = []
    if row["late"]:
        found = f"{row['late']} {about}are due for more than {LATE_SECONDS / 60:.0f} minutes and not sent"
        notes.append(warn(found, f"start a sender: duly worker --only {sender}; or see DULY_SENDER_OFF"))
    if row["waiting"]:
        fix = "set TELEGRAM_BOT_TOKEN, or DULY_TELEGRAM_ON_CONSOLE=true; after 7 days they fail"
        notes.append(warn(f"{row['waiting']} {about}wait for telegram: TELEGRAM_BOT_TOKEN is not set", fix))
    if row["uncertain"]:
        fix = f"duly notifications list --status uncertain{option}, then resend or resolve each"
        notes.append(warn(f"of {row['uncertain']} {about}nobody knows whether they arrived", fix))
    if row["failed"]:
        fix = f"duly notifications list --status failed{option}"
        notes.append(warn(f"{row['failed']} {about}failed since yesterday", fix))
    return notes


def count_messages(case: Case) -> Row:
    """What is in the outbox, asked as the worker."""
    return case.ask(SQL.count_messages, role=case.settings.worker_role, **figures_for(case.settings))[0]


def count_messages_about_days(case: Case) -> Row:
    """What is to be said about days."""
    statement = SQL.using(schema=case.settings.db_schema).count_messages_about_days
    return case.ask(statement, role=case.settings.worker_role, **figures_for(case.settings))[0]


def figures_for(settings: Settings) -> dict[str, object]:
    """What is late, how many are counted, and which channels are not configured."""
    is_off = "telegram" in settings.sender_off.split(",")
    is_sent = settings.telegram_token is not None or settings.telegram_on_console
    unconfigured = [] if is_off or is_sent else ["telegram"]
    return {"late_seconds": LATE_SECONDS, "most": MAX_COUNTED, "unconfigured": unconfigured}


def delivers_days(case: Case) -> bool:
    """Is it ours to say?"""
    role, schema = case.settings.worker_role, case.settings.db_schema
    return case.ask(SQL.delivers_days, role=role, in_schema=schema)[0]["is_so"]
