"""What is to be said: does it go out?"""

from collections.abc import Sequence

from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.verify.doctor.case import Case
from duly.verify.doctor.finding import Note, ok, warn

__all__ = ["check_messages"]

SQL = load_queries(__file__, "messages.sql")
LATE_SECONDS = 600.0
MOST_COUNTED = 10_000


def check_messages(case: Case) -> Sequence[Note]:
    """Do messages go out, and does somebody look at those of which nobody knows?"""
    row = count_messages(case)
    notes: list[Note] = []
    if row["late"]:
        found = f"{row['late']} are due for more than {LATE_SECONDS / 60:.0f} minutes and not sent"
        notes.append(warn(found, "start a sender: duly worker --only outbox; or see DULY_SENDER_OFF"))
    if row["uncertain"]:
        found = f"of {row['uncertain']} nobody knows whether they arrived"
        notes.append(warn(found, "duly notifications list --status uncertain, then resend or resolve each"))
    if row["failed"]:
        notes.append(warn(f"{row['failed']} failed since yesterday", "duly notifications list --status failed"))
    if row["by_apprise"] and not case.settings.public_url:
        found = f"{row['by_apprise']} people are written to by apprise, and their messages have no links to answer by"
        notes.append(warn(found, "set DULY_PUBLIC_URL to where people reach the API"))
    return notes or [ok("none is late, uncertain or failed")]


def count_messages(case: Case) -> Row:
    """What is in the outbox, asked as the worker."""
    role = case.settings.worker_role
    return case.ask(SQL.count_messages, role=role, late_seconds=LATE_SECONDS, most=MOST_COUNTED)[0]
