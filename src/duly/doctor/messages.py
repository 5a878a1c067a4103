"""Messages: late, uncertain and failed ones."""

from collections.abc import Sequence

from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.context import CheckContext
from duly.doctor.finding import Note, ok, warn
from duly.settings import Settings

SQL = load_queries(__file__, "messages.sql")
LATE_SECONDS = 600.0
MAX_COUNTED = 10_000


def check_messages(context: CheckContext) -> Sequence[Note]:
    """Check that messages are sent in time, and that uncertain and failed ones are resolved."""
    if context.is_backend_only:
        return [ok("a backend delivers them")]
    row, days = count_messages(context), count_notifications(context) if delivers_notifications(context) else None
    notes = [
        *count_notes(row, "", "outbox", ""),
        *(count_notes(days, "about days ", "notifications", " --days") if days else ()),
    ]
    if row["by_apprise"] and not context.settings.public_url:
        found = f"{row['by_apprise']} users get messages by Apprise, without answer links"
        notes.append(warn(found, "set DULY_PUBLIC_URL to the public URL of the API"))
    return notes or [ok("none is late, uncertain or failed")]


def count_notes(row: Row, about: str, sender: str, option: str) -> list[Note]:
    """Return the notes on one table; `sender` and `option` are those of the commands in the fixes."""
    notes: list[Note] = []
    if row["late"]:
        found = f"{row['late']} {about}are due for more than {LATE_SECONDS / 60:.0f} minutes and not sent"
        notes.append(warn(found, f"start a sender: duly worker --only {sender}; or see DULY_SENDER_OFF"))
    if row["waiting"]:
        fix = "set TELEGRAM_BOT_TOKEN, or DULY_TELEGRAM_ON_CONSOLE=true; after 7 days they fail"
        notes.append(warn(f"{row['waiting']} {about}wait for telegram: TELEGRAM_BOT_TOKEN is not set", fix))
    if row["uncertain"]:
        fix = f"duly notifications list --status uncertain{option}, then resend or resolve each"
        notes.append(warn(f"{row['uncertain']} {about}are uncertain: it is unknown whether they arrived", fix))
    if row["failed"]:
        fix = f"duly notifications list --status failed{option}"
        notes.append(warn(f"{row['failed']} {about}failed since yesterday", fix))
    return notes


def count_messages(context: CheckContext) -> Row:
    """Count the messages of the outbox, as the worker role."""
    return context.query(SQL.count_messages, role=context.settings.worker_role, **count_parameters(context.settings))[0]


def count_notifications(context: CheckContext) -> Row:
    """Count the notifications of the ingest schema, as the worker role."""
    statement = SQL.using(schema=context.settings.db_schema).count_notifications
    return context.query(statement, role=context.settings.worker_role, **count_parameters(context.settings))[0]


def count_parameters(settings: Settings) -> dict[str, object]:
    """Return the parameters of the counts."""
    is_off = "telegram" in settings.sender_off.split(",")
    is_sent = settings.telegram_token is not None or settings.telegram_on_console
    unconfigured = [] if is_off or is_sent else ["telegram"]
    return {"late_seconds": LATE_SECONDS, "limit": MAX_COUNTED, "unconfigured": unconfigured}


def delivers_notifications(context: CheckContext) -> bool:
    """Return whether duly delivers the notifications of the ingest schema."""
    role, schema = context.settings.worker_role, context.settings.db_schema
    return context.query(SQL.delivers_notifications, role=role, schema_name=schema)[0]["is_so"]
