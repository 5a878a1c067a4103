# ruff: noqa: RUF001 (the commas and colons of Chinese)
"""The texts sent to people about their days: one catalogue with the same keys and placeholders in every language."""

from collections.abc import Mapping

MESSAGES: Mapping[str, Mapping[str, str]] = {
    "en": {
        "capture_failed": "Your screenshots could not be read, and nothing was changed:\n{reason}",
        "capture_unchanged": "Your screenshots are read: nothing changed on {day}.",
        "capture_several_days": (
            "Your screenshots show {count} days: {days}. You get a message for each day that changed."
        ),
        "list_separator": ", ",
        "summary_one": "1 change on {day}.",
        "summary_many": "{count} changes on {day}.",
        "shift_added": "New shift on {day}: {shift}.",
        "shift_removed": "Shift removed on {day}: {shift}.",
        "shift_changed": "The {when} shift on {day} {changes}.",
        "shift_changed_ambiguous": "The {when} shift on {day} ({shift}) {changes}.",
        "clause_separator": "; it ",
        "now_cancelled": "is cancelled",
        "no_longer_cancelled": "is no longer cancelled",
        "new_start": "now starts at {start}",
        "new_end": "now ends at {end}",
        "new_times": "is now {times}",
        "new_customer": "is now for {customer}",
        "no_customer": "is no longer for {customer}",
        "new_title": "is now “{title}”",
        "new_address": "now has the address {address}",
        "no_address": "no longer has the address {address}",
    },
    "sv": {
        "capture_failed": "Dina skärmbilder kunde inte läsas, och ingenting är ändrat:\n{reason}",
        "capture_unchanged": "Dina skärmbilder är lästa: ingenting är ändrat den {day}.",
        "capture_several_days": (
            "Dina skärmbilder visar {count} dagar: {days}. Du får ett meddelande för varje ändrad dag."
        ),
        "list_separator": ", ",
        "summary_one": "1 ändring den {day}.",
        "summary_many": "{count} ändringar den {day}.",
        "shift_added": "Nytt pass den {day}: {shift}.",
        "shift_removed": "Borttaget pass den {day}: {shift}.",
        "shift_changed": "Passet {when} den {day} {changes}.",
        "shift_changed_ambiguous": "Passet {when} den {day} ({shift}) {changes}.",
        "clause_separator": "; det ",
        "now_cancelled": "är avbokat",
        "no_longer_cancelled": "är inte längre avbokat",
        "new_start": "börjar nu {start}",
        "new_end": "slutar nu {end}",
        "new_times": "är nu {times}",
        "new_customer": "är nu hos {customer}",
        "no_customer": "är inte längre hos {customer}",
        "new_title": "är nu ”{title}”",
        "new_address": "har nu adressen {address}",
        "no_address": "har inte längre adressen {address}",
    },
    "zh": {
        "capture_failed": "无法识别您的截图，日程没有改动：\n{reason}",
        "capture_unchanged": "您的截图已识别：{day} 没有变化。",
        "capture_several_days": "您的截图显示了 {count} 天：{days}。有变化的日子会分别通知您。",
        "list_separator": "、",
        "summary_one": "{day} 有 1 处变化。",
        "summary_many": "{day} 有 {count} 处变化。",
        "shift_added": "{day} 新增班次：{shift}。",
        "shift_removed": "{day} 删除班次：{shift}。",
        "shift_changed": "{day} {when} 的班次：{changes}。",
        "shift_changed_ambiguous": "{day} {when} 的班次（{shift}）：{changes}。",
        "clause_separator": "；",
        "now_cancelled": "已取消",
        "no_longer_cancelled": "不再取消",
        "new_start": "改为 {start} 开始",
        "new_end": "改为 {end} 结束",
        "new_times": "改为 {times}",
        "new_customer": "客户改为 {customer}",
        "no_customer": "客户不再是 {customer}",
        "new_title": "改为“{title}”",
        "new_address": "地址改为 {address}",
        "no_address": "不再有地址 {address}",
    },
}
LANGUAGES = tuple(MESSAGES)


def translate(language: str, key: str, **values: object) -> str:
    """Return a text of the catalogue with its placeholders filled in; KeyError for an unknown language or key."""
    return MESSAGES[language][key].format(**values)
