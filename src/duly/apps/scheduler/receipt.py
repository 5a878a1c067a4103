# ruff: noqa: RUF001 (the commas and colons of Chinese)
"""What a reminder becomes when it was answered: what was done, when, and what was booked, in the person's language."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from duly.apps.scheduler.model import Action, Receipt, Run
from duly.apps.scheduler.reminder import words_of

__all__ = ["closed_text", "first_of", "reason_of", "receipt_line", "receipt_text"]

WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "complete": "✅ Done, {at}",
        "skip": "⏭ Skipped, {at}",
        "snooze": "⏰ Later: I will remind you {until}",
        "cancel": "✖️ Cancelled this time, {at}",
        "booked": "Booked: {amount} {currency}",
        "closed": "✖️ Over without an answer: {reason}",
        "it was closed": "it was closed",
        "the schedule was archived": "the schedule was archived",
        "missed: the schedule was paused": "missed: the schedule was paused",
        "missed: due before the pause": "missed: due before the pause",
        "missed: nobody was there to remind of it": "missed: nobody was there to remind of it",
        "missed: a later one has come": "missed: a later one has come",
        "missed: a hundred later ones have come": "missed: a hundred later ones have come",
    },
    "sv": {
        "complete": "✅ Klart, {at}",
        "skip": "⏭ Överhoppad, {at}",
        "snooze": "⏰ Senare: jag påminner {until}",
        "cancel": "✖️ Avbruten denna gång, {at}",
        "booked": "Bokfört: {amount} {currency}",
        "closed": "✖️ Avslutad utan svar: {reason}",
        "it was closed": "den stängdes",
        "the schedule was archived": "schemat arkiverades",
        "missed: the schedule was paused": "missad: schemat var pausat",
        "missed: due before the pause": "missad: skulle ha kommit före pausen",
        "missed: nobody was there to remind of it": "missad: ingen var där som kunde påminna",
        "missed: a later one has come": "missad: en senare har kommit",
        "missed: a hundred later ones have come": "missad: hundra senare har kommit",
    },
    "zh": {
        "complete": "✅ 已完成，{at}",
        "skip": "⏭ 已跳过，{at}",
        "snooze": "⏰ 稍后提醒：{until}",
        "cancel": "✖️ 本期已取消，{at}",
        "booked": "已记账：{amount} {currency}",
        "closed": "✖️ 未回复即结束：{reason}",
        "it was closed": "已被关闭",
        "the schedule was archived": "该计划已归档",
        "missed: the schedule was paused": "已错过：计划当时已暂停",
        "missed: due before the pause": "已错过：在暂停之前到期",
        "missed: nobody was there to remind of it": "已错过：当时无法提醒",
        "missed: a later one has come": "已错过：后一期已到",
        "missed: a hundred later ones have come": "已错过：之后已有一百期",
    },
}


def receipt_text(run: Run, receipt: Receipt, zone: str, language: str) -> str:
    """The run, and what the answer did to it: the same words whenever they are asked for."""
    words = WORDS.get(language, WORDS["en"])
    lines = [*head_of(run, zone, language), receipt_line(receipt, zone, language)]
    if receipt.expense:
        lines.append(words["booked"].format(**receipt.expense))
    return "\n".join(lines)


def receipt_line(receipt: Receipt, zone: str, language: str) -> str:
    """What the answer did, in one line."""
    words = WORDS.get(language, WORDS["en"])
    until = receipt.remind_at or receipt.confirmed_at
    return words[receipt.action].format(at=told(receipt.confirmed_at, zone), until=told(until, zone))


def closed_text(run: Run, zone: str, language: str) -> str:
    """A run that ended without an answer, and why."""
    words = WORDS.get(language, WORDS["en"])
    return "\n".join([*head_of(run, zone, language), words["closed"].format(reason=reason_of(run, language))])


def reason_of(run: Run, language: str) -> str:
    """Why a run ended without an answer; what somebody wrote in words of their own is told in these."""
    words = WORDS.get(language, WORDS["en"])
    return "; ".join(words.get(part, part) for part in (run.reason or "it was closed").split("; "))


def first_of(receipts: Sequence[Receipt]) -> Receipt | None:
    """The receipt of the answer that ended a run."""
    return next((each for each in receipts if each.action is not Action.SNOOZE), None)


def head_of(run: Run, zone: str, language: str) -> list[str]:
    """Which run it is."""
    words = words_of(language)
    return [run.name, words["when"].format(at=told(run.scheduled_at, zone), zone=zone), ""]


def told(at: datetime, zone: str) -> str:
    """An instant by the person's own clock."""
    return at.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M")
