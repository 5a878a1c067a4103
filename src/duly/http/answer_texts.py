"""What the page behind a link says, in the languages that reminders speak."""

# ruff: noqa: RUF001 (Chinese has punctuation of its own)

from collections.abc import Mapping

__all__ = ["words_of"]

WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "complete": "Done",
        "skip": "Skip",
        "snooze": "Remind me later",
        "cancel": "Cancel this one",
        "ask complete": "Say that it is done?",
        "ask skip": "Skip it this time?",
        "ask snooze": "Be reminded again in {minutes} minutes?",
        "ask cancel": "Cancel it this time?",
        "did complete": "It is done.",
        "did skip": "It is skipped this time.",
        "did snooze": "You will be reminded again.",
        "did cancel": "It is cancelled this time.",
        "when": "Due {at} ({zone})",
        "will book": "This books {amount} {currency}.",
        "booked": "Booked: {amount} {currency}",
        "answered at": "Answered {at} ({zone})",
        "again at": "Next reminder {at} ({zone})",
        "answered": "This was answered before; the first answer counts.",
        "closed": "This one is closed, and takes no more answers.",
        "over": "This link is no longer valid",
        "over why": "Its time is over. Answer by a newer message.",
        "unknown": "There is nothing here",
        "unknown why": "This link is incomplete, or it was withdrawn. Copy the whole address from the message.",
    },
    "sv": {
        "complete": "Klart",
        "skip": "Hoppa över",
        "snooze": "Påminn mig senare",
        "cancel": "Avbryt denna gång",
        "ask complete": "Är det klart?",
        "ask skip": "Hoppa över den här gången?",
        "ask snooze": "Bli påmind igen om {minutes} minuter?",
        "ask cancel": "Avbryta den här gången?",
        "did complete": "Det är klart.",
        "did skip": "Överhoppad den här gången.",
        "did snooze": "Du blir påmind igen.",
        "did cancel": "Avbruten den här gången.",
        "when": "Ska göras {at} ({zone})",
        "will book": "Detta bokför {amount} {currency}.",
        "booked": "Bokfört: {amount} {currency}",
        "answered at": "Besvarat {at} ({zone})",
        "again at": "Nästa påminnelse {at} ({zone})",
        "answered": "Detta är redan besvarat; det första svaret gäller.",
        "closed": "Den här är stängd och tar inte emot fler svar.",
        "over": "Länken gäller inte längre",
        "over why": "Dess tid är ute. Svara via ett nyare meddelande.",
        "unknown": "Här finns ingenting",
        "unknown why": "Länken är ofullständig eller har dragits tillbaka. Kopiera hela adressen ur meddelandet.",
    },
    "zh": {
        "complete": "完成",
        "skip": "跳过",
        "snooze": "稍后提醒",
        "cancel": "取消本期",
        "ask complete": "确认已完成？",
        "ask skip": "跳过本期？",
        "ask snooze": "{minutes} 分钟后再次提醒？",
        "ask cancel": "取消本期？",
        "did complete": "已完成。",
        "did skip": "本期已跳过。",
        "did snooze": "稍后会再次提醒。",
        "did cancel": "本期已取消。",
        "when": "计划时间 {at} ({zone})",
        "will book": "将记账 {amount} {currency}。",
        "booked": "已记账 {amount} {currency}",
        "answered at": "答复时间 {at} ({zone})",
        "again at": "下次提醒 {at} ({zone})",
        "answered": "此前已答复，以第一次答复为准。",
        "closed": "本期已关闭，不再接受答复。",
        "over": "链接已失效",
        "over why": "链接已过期，请通过较新的消息答复。",
        "unknown": "这里没有内容",
        "unknown why": "链接不完整或已被撤回，请从消息中复制完整地址。",
    },
}


def words_of(language: str) -> Mapping[str, str]:
    """The words of a language, or English."""
    return WORDS.get(language, WORDS["en"])
