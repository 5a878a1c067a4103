# ruff: noqa: RUF001 (the commas and colons of Chinese)
"""What the bot says, in the languages it speaks."""

from collections.abc import Mapping

__all__ = ["COMMANDS", "counted", "language_of", "say"]

WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "welcome": "Welcome, {uid}. I remind you of what is due, and read your photographed schedules.\n\n{help}",
        "linked": "You are {uid} now. I will write to you here.",
        "known": "You are {uid}.\n\n{help}",
        "help": "/today - your day\n/upcoming - what is coming\n/start_session - begin to send screenshots\n"
        "/done - all screenshots are sent\n/help - this list\n\nSend screenshots as files: PNG, JPEG or WebP.",
        "private": "This bot is private.",
        "stranger": "I do not know you yet. Ask for a link, and open it here.",
        "bad link": "This link does not work: it has expired, was used, or was not made by me. Ask for a new one.",
        "taken": "This Telegram account is {uid} already, and is one person only. To bind it to another, ask for: "
        "duly users unlink {uid}",
        "link used": "The person of this link has another Telegram account already. Ask for: duly users unlink",
        "slowly": "That is a lot at once. Wait a little, please, and send it again.",
        "failed": "Something went wrong here, and it is written down. Try again in a while, please.",
        "begun": "The session is open. Send the screenshots as files, then /done.",
        "going on": "Your session is open and has {images}. Send more, or /done.",
        "was closed": "That session is closed already. /start_session begins another.",
        "taken in": "Screenshot {nth} is in your session. Send more, then /done.",
        "taken alone": "I have it, and tell you what changed once it is read.",
        "done": "The session is closed with {images}. I tell you what changed once it is read.",
        "nothing to close": "No session is open. /start_session begins one.",
        "empty session": "Your session has no screenshot yet. Send some as files, then /done.",
        "not yet done": "Your session is open and has {images}. /done closes it.",
        "compressed": "Telegram has compressed this photograph, and small letters are lost in it. Please send it as a "
        "file (attach, then File).",
        "foreign": "I cannot read this. Send screenshots as files: whole PNG, JPEG or WebP, at most {megabytes} MB "
        "and 40 million pixels.",
        "too large": "This file is too large. At most {megabytes} MB, please.",
        "too many": "This session has {images}, and takes no more. /done closes it.",
        "gone": "Telegram does not give me this file any more. Please send it again.",
        "unknown": "I did not understand that.\n\n{help}",
        "1 image": "1 screenshot",
        "images": "{several} screenshots",
        "not your button": "This button was not made for this chat, or is too old for me to know.",
        "no such run": "This one is not there any more.",
        "answered": "It was answered already: {receipt}",
        "closed": "It is over, and takes no answer: {reason}",
        "another answer": "This button stands for another answer already.",
        "reminded again": "You have been reminded again since. Answer the newer message, please.",
        "today": "Today, {day}",
        "no day": "No schedule is known for this day.",
        "free day": "Nothing is on the schedule.",
        "runs": "Reminders:",
        "upcoming": "What is coming:",
        "nothing": "Nothing is coming.",
        "pending": "to come",
        "sent": "waits for your answer",
        "snoozed": "later",
        "confirmed": "done",
        "skipped": "skipped",
        "cancelled": "cancelled",
        "shift cancelled": "cancelled",
    },
    "sv": {
        "welcome": "Välkommen, {uid}. Jag påminner om det som ska göras och läser fotograferade scheman.\n\n{help}",
        "linked": "Du är {uid} nu. Jag skriver till dig här.",
        "known": "Du är {uid}.\n\n{help}",
        "help": "/today - din dag\n/upcoming - det som kommer\n/start_session - börja skicka skärmbilder\n"
        "/done - alla skärmbilder är skickade\n/help - denna lista\n\n"
        "Skicka skärmbilder som filer: PNG, JPEG eller WebP.",
        "private": "Den här boten är privat.",
        "stranger": "Jag känner dig inte än. Be om en länk och öppna den här.",
        "bad link": "Länken fungerar inte: den har gått ut, är använd eller kommer inte från mig. Be om en ny.",
        "taken": "Det här Telegramkontot är redan {uid}, och är bara en person. Be om detta för att byta: "
        "duly users unlink {uid}",
        "link used": "Personen i länken har redan ett annat Telegramkonto. Be om: duly users unlink",
        "slowly": "Det var mycket på en gång. Vänta lite och skicka igen.",
        "failed": "Något gick fel här, och det är antecknat. Försök igen om en stund.",
        "begun": "Sessionen är öppen. Skicka skärmbilderna som filer, sedan /done.",
        "going on": "Din session är öppen och har {images}. Skicka fler, eller /done.",
        "was closed": "Den sessionen är redan stängd. /start_session börjar en ny.",
        "taken in": "Skärmbild {nth} är i din session. Skicka fler, sedan /done.",
        "taken alone": "Jag har den, och berättar vad som ändrats när den är läst.",
        "done": "Sessionen är stängd med {images}. Jag berättar vad som ändrats när den är läst.",
        "nothing to close": "Ingen session är öppen. /start_session börjar en.",
        "empty session": "Din session har ingen skärmbild än. Skicka några som filer, sedan /done.",
        "not yet done": "Din session är öppen och har {images}. /done stänger den.",
        "compressed": "Telegram har komprimerat fotot, och små bokstäver går förlorade. Skicka det som fil (bifoga, "
        "sedan Fil).",
        "foreign": "Det här kan jag inte läsa. Skicka skärmbilder som filer: hela PNG, JPEG eller WebP, högst "
        "{megabytes} MB och 40 miljoner bildpunkter.",
        "too large": "Filen är för stor. Högst {megabytes} MB.",
        "too many": "Sessionen har {images} och tar inte fler. /done stänger den.",
        "gone": "Telegram ger mig inte filen längre. Skicka den igen.",
        "unknown": "Det förstod jag inte.\n\n{help}",
        "1 image": "1 skärmbild",
        "images": "{several} skärmbilder",
        "not your button": "Knappen är inte gjord för den här chatten, eller är för gammal för mig.",
        "no such run": "Den finns inte längre.",
        "answered": "Den är redan besvarad: {receipt}",
        "closed": "Den är över och tar inget svar: {reason}",
        "another answer": "Knappen står redan för ett annat svar.",
        "reminded again": "Du har påmints igen sedan dess. Svara på det nyare meddelandet.",
        "today": "I dag, {day}",
        "no day": "Inget schema är känt för dagen.",
        "free day": "Inget står på schemat.",
        "runs": "Påminnelser:",
        "upcoming": "Det som kommer:",
        "nothing": "Inget är på väg.",
        "pending": "kommer",
        "sent": "väntar på ditt svar",
        "snoozed": "senare",
        "confirmed": "klart",
        "skipped": "överhoppad",
        "cancelled": "avbruten",
        "shift cancelled": "avbokat",
    },
    "zh": {
        "welcome": "欢迎，{uid}。我会提醒您到期事项，并识别您拍摄的日程。\n\n{help}",
        "linked": "您现在是 {uid}。我会在这里给您发消息。",
        "known": "您是 {uid}。\n\n{help}",
        "help": "/today - 今天\n/upcoming - 即将到期\n/start_session - 开始发送截图\n/done - 截图发送完毕\n"
        "/help - 本列表\n\n请以文件形式发送截图：PNG、JPEG 或 WebP。",
        "private": "这是私人机器人。",
        "stranger": "我还不认识您。请索取链接并在这里打开。",
        "bad link": "此链接无效：已过期、已使用，或不是我生成的。请索取新的链接。",
        "taken": "此 Telegram 账号已是 {uid}，一个账号只对应一个人。如需更换，请让管理员执行：duly users unlink {uid}",
        "link used": "此链接对应的人已绑定另一个 Telegram 账号。请让管理员执行：duly users unlink",
        "slowly": "一次发送太多了，请稍等再发。",
        "failed": "这里出了错，已记录下来。请稍后再试。",
        "begun": "会话已开始。请以文件形式发送截图，然后 /done。",
        "going on": "您的会话已有{images}。继续发送，或 /done。",
        "was closed": "该会话已关闭。/start_session 可开始新的会话。",
        "taken in": "第 {nth} 张截图已收入会话。继续发送，然后 /done。",
        "taken alone": "已收到，识别后会告诉您有什么变化。",
        "done": "会话已关闭，共{images}。识别后会告诉您有什么变化。",
        "nothing to close": "没有进行中的会话。/start_session 可开始一个。",
        "empty session": "您的会话还没有截图。请以文件形式发送，然后 /done。",
        "not yet done": "您的会话已有{images}。/done 可关闭它。",
        "compressed": "Telegram 压缩了这张照片，小字会丢失。请以文件形式发送（附件，然后选“文件”）。",
        "foreign": "无法识别此内容。请以文件形式发送完整的 PNG、JPEG 或 WebP 截图，最大 {megabytes} MB、4000 万像素。",
        "too large": "文件太大，最大 {megabytes} MB。",
        "too many": "此会话已有{images}，不能再加。/done 可关闭它。",
        "gone": "Telegram 已不再提供此文件，请重新发送。",
        "unknown": "我没有明白。\n\n{help}",
        "1 image": " 1 张截图",
        "images": " {several} 张截图",
        "not your button": "此按钮不属于这个聊天，或已太旧。",
        "no such run": "该事项已不存在。",
        "answered": "已回复过：{receipt}",
        "closed": "已结束，不再接受回复：{reason}",
        "another answer": "此按钮已对应另一个回复。",
        "reminded again": "之后已再次提醒您，请回复较新的消息。",
        "today": "今天，{day}",
        "no day": "没有这一天的日程。",
        "free day": "日程为空。",
        "runs": "提醒：",
        "upcoming": "即将到期：",
        "nothing": "没有即将到期的事项。",
        "pending": "待提醒",
        "sent": "等待您的回复",
        "snoozed": "稍后",
        "confirmed": "已完成",
        "skipped": "已跳过",
        "cancelled": "已取消",
        "shift cancelled": "已取消",
    },
}
COMMANDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "today": "Your day",
        "upcoming": "What is coming",
        "start_session": "Begin to send screenshots",
        "done": "All screenshots are sent",
        "help": "What I can do",
    },
    "sv": {
        "today": "Din dag",
        "upcoming": "Det som kommer",
        "start_session": "Börja skicka skärmbilder",
        "done": "Alla skärmbilder är skickade",
        "help": "Vad jag kan",
    },
    "zh": {
        "today": "今天",
        "upcoming": "即将到期",
        "start_session": "开始发送截图",
        "done": "截图发送完毕",
        "help": "帮助",
    },
}


def say(language: str, name: str, **values: object) -> str:
    """These words in a language, or in English."""
    words = WORDS.get(language, WORDS["en"])
    return words[name].format(help=words["help"], **values)


def language_of(code: str | None) -> str:
    """The language of a Telegram app, `zh-hans` for one, as ours are called; English when it says none."""
    language = (code or "en").split("-")[0].lower()
    return language if 2 <= len(language) <= 3 and language.isascii() and language.isalpha() else "en"


def counted(language: str, several: int) -> str:
    """So many screenshots."""
    return say(language, "1 image") if several == 1 else say(language, "images", several=several)
