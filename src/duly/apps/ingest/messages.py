# ruff: noqa: RUF001 (the commas and colons of Chinese)
"""What people are told of their days, in every language: one catalogue, the same keys and values in each."""

from collections.abc import Mapping

__all__ = ["LANGUAGES", "WORDS", "say"]

WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "failed": "Your screenshots could not be read, and nothing was changed:\n{why}",
        "unchanged": "Your screenshots are read: nothing changed on {day}.",
        "several days": "Your screenshots show {count} days: {days}. You get a message for each day that changed.",
        "comma": ", ",
        "one change": "1 change on {day}.",
        "changes": "{count} changes on {day}.",
        "added": "New shift on {day}: {shift}.",
        "removed": "Shift removed on {day}: {shift}.",
        "changed": "The {when} shift on {day} {changes}.",
        "changed, of several": "The {when} shift on {day} ({shift}) {changes}.",
        "and": "; it ",
        "cancelled": "is cancelled",
        "not cancelled": "is no longer cancelled",
        "start": "now starts at {start}",
        "end": "now ends at {end}",
        "times": "is now {times}",
        "customer": "is now for {customer}",
        "no customer": "is no longer for {customer}",
        "title": "is now “{title}”",
        "address": "now has the address {address}",
        "no address": "no longer has the address {address}",
    },
    "sv": {
        "failed": "Dina skärmbilder kunde inte läsas, och ingenting är ändrat:\n{why}",
        "unchanged": "Dina skärmbilder är lästa: ingenting är ändrat den {day}.",
        "several days": "Dina skärmbilder visar {count} dagar: {days}. Du får ett meddelande för varje ändrad dag.",
        "comma": ", ",
        "one change": "1 ändring den {day}.",
        "changes": "{count} ändringar den {day}.",
        "added": "Nytt pass den {day}: {shift}.",
        "removed": "Borttaget pass den {day}: {shift}.",
        "changed": "Passet {when} den {day} {changes}.",
        "changed, of several": "Passet {when} den {day} ({shift}) {changes}.",
        "and": "; det ",
        "cancelled": "är avbokat",
        "not cancelled": "är inte längre avbokat",
        "start": "börjar nu {start}",
        "end": "slutar nu {end}",
        "times": "är nu {times}",
        "customer": "är nu hos {customer}",
        "no customer": "är inte längre hos {customer}",
        "title": "är nu ”{title}”",
        "address": "har nu adressen {address}",
        "no address": "har inte längre adressen {address}",
    },
    "zh": {
        "failed": "无法识别您的截图，日程没有改动：\n{why}",
        "unchanged": "您的截图已识别：{day} 没有变化。",
        "several days": "您的截图显示了 {count} 天：{days}。有变化的日子会分别通知您。",
        "comma": "、",
        "one change": "{day} 有 1 处变化。",
        "changes": "{day} 有 {count} 处变化。",
        "added": "{day} 新增班次：{shift}。",
        "removed": "{day} 删除班次：{shift}。",
        "changed": "{day} {when} 的班次：{changes}。",
        "changed, of several": "{day} {when} 的班次（{shift}）：{changes}。",
        "and": "；",
        "cancelled": "已取消",
        "not cancelled": "不再取消",
        "start": "改为 {start} 开始",
        "end": "改为 {end} 结束",
        "times": "改为 {times}",
        "customer": "客户改为 {customer}",
        "no customer": "客户不再是 {customer}",
        "title": "改为“{title}”",
        "address": "地址改为 {address}",
        "no address": "不再有地址 {address}",
    },
}
LANGUAGES = tuple(WORDS)


def say(language: str, key: str, **values: object) -> str:
    """One text of the catalogue with its values in place."""
    return WORDS[language][key].format(**values)
