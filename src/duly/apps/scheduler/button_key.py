"""The key of a reminder's button: what it answers, in one short text that is also the idempotency key of the answer.

    17:1794837780:snooze:60        run 17, reminded at that Unix time, snoozed for 60 minutes

`reminder.py` writes it into the message; the Telegram bot and the links in messages send it back. A second reminder of
a run has keys of its own, so that snoozing again is another answer; a second tap on one button is the same answer.
"""

import re
from dataclasses import dataclass
from datetime import datetime

from duly.apps.scheduler.model import Action, Answer

KEY = re.compile(r"(\d{1,19}):(\d{1,12}):(?:(complete|skip|cancel)|(snooze):(\d{1,5}))", re.ASCII)


@dataclass(frozen=True)
class ButtonPress:
    """The answer that a pressed button stands for."""

    run_id: int
    answer: Answer


def format_button_key(run_id: int, remind_at: datetime, action: str, minutes: int | None) -> str:
    """Return the key of the button for an action, on the reminder of a run that was due at `remind_at`."""
    return f"{run_id}:{int(remind_at.timestamp())}:{action}" + (f":{minutes}" if minutes else "")


def parse_button_key(key: str) -> ButtonPress | None:
    """Parse the key of a button; None for any other text."""
    found = KEY.fullmatch(key)
    if found is None:
        return None
    action = Action(found[3] or found[4])
    return ButtonPress(int(found[1]), Answer(action, key, {"minutes": int(found[5])} if found[5] else {}))
