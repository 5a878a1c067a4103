"""What a reminder says: in the person's language, with their own time, and the buttons that answer it."""

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from duly.apps.scheduler.model import DueRun

__all__ = ["buttons_of", "payload_of", "text_of", "words_of"]

WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "when": "Due {at} ({zone})",
        "amount": "Amount: {amount} {currency}",
        "complete": "Done",
        "skip": "Skip",
        "snooze 60": "In 1 hour",
        "snooze 1440": "Tomorrow",
        "cancel": "Cancel this one",
    },
    "sv": {
        "when": "Ska göras {at} ({zone})",
        "amount": "Belopp: {amount} {currency}",
        "complete": "Klart",
        "skip": "Hoppa över",
        "snooze 60": "Om 1 timme",
        "snooze 1440": "I morgon",
        "cancel": "Avbryt denna gång",
    },
    "zh": {
        "when": "计划时间 {at} ({zone})",
        "amount": "金额 {amount} {currency}",
        "complete": "完成",
        "skip": "跳过",
        "snooze 60": "稍后",
        "snooze 1440": "明天",
        "cancel": "取消",
    },
}
CHOICES = (("complete", None), ("skip", None), ("snooze", 60), ("snooze", 1440), ("cancel", None))


def payload_of(run: DueRun) -> dict[str, Any]:
    """The message about a run, as the outbox keeps it."""
    return {
        "run": run.id,
        "job": run.job_id,
        "period": run.period_key,
        "scheduled_at": run.scheduled_at.isoformat(),
        "text": text_of(run),
        "buttons": buttons_of(run),
    }


def text_of(run: DueRun) -> str:
    """The words of a reminder."""
    words = words_of(run.language)
    at = run.scheduled_at.astimezone(ZoneInfo(run.zone))
    lines = [run.name, run.description, words["when"].format(at=at.strftime("%Y-%m-%d %H:%M"), zone=run.zone)]
    if run.expense:
        lines.append(words["amount"].format(**run.expense))
    return "\n".join(line for line in lines if line)


def buttons_of(run: DueRun) -> list[dict[str, Any]]:
    """The answers there are; the key of each makes two taps on it one answer."""
    words, moment = words_of(run.language), int(run.remind_at.timestamp())
    return [
        {
            "action": action,
            "label": words[action if minutes is None else f"{action} {minutes}"],
            "key": f"{run.id}:{moment}:{action}" + (f":{minutes}" if minutes else ""),
            **({"payload": {"minutes": minutes}} if minutes else {}),
        }
        for action, minutes in CHOICES
    ]


def words_of(language: str) -> Mapping[str, str]:
    """The words of a language, or English."""
    return WORDS.get(language, WORDS["en"])
