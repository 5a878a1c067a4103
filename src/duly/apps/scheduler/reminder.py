"""The message that reminds a person of a run: in their language and time zone, with a button for each answer.

Others read the payload: channels show `text` and `buttons`, `outbox/answer_links.py` turns `buttons` into links, and
the trigger outbox_note_sent on `duly.outbox` finds the run of a sent message by `job_run_id`.
"""

from typing import Any
from zoneinfo import ZoneInfo

from duly.apps.scheduler.button_key import format_button_key
from duly.apps.scheduler.messages import translate
from duly.apps.scheduler.model import DueRun

CHOICES = (("complete", None), ("skip", None), ("snooze", 60), ("snooze", 1440), ("cancel", None))


def reminder_payload(run: DueRun) -> dict[str, Any]:
    """Return the message about a run, as the outbox stores it."""
    return {
        "job_run_id": run.id,
        "job_id": run.schedule_id,
        "period_key": run.period_key,
        "scheduled_at": run.scheduled_at.isoformat(),
        "text": reminder_text(run),
        "buttons": reminder_buttons(run),
    }


def reminder_text(run: DueRun) -> str:
    """Return the text of a reminder."""
    at = run.scheduled_at.astimezone(ZoneInfo(run.zone)).strftime("%Y-%m-%d %H:%M")
    lines = [run.name, run.description, translate(run.language, "reminder.due", at=at, zone=run.zone)]
    if run.expense:
        lines.append(translate(run.language, "reminder.amount", **run.expense))
    return "\n".join(line for line in lines if line)


def reminder_buttons(run: DueRun) -> list[dict[str, Any]]:
    """Return a button for each answer."""
    return [
        {
            "action": action,
            "label": translate(run.language, f"button.{action}" + (f"_{minutes}" if minutes else "")),
            "key": format_button_key(run.id, run.remind_at, action, minutes),
            **({"payload": {"minutes": minutes}} if minutes else {}),
        }
        for action, minutes in CHOICES
    ]
