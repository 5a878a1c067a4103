# ruff: noqa: RUF001 (the commas and colons of Chinese)
"""The messages of the bot, by language and key. A test checks that all languages have the same keys."""

from collections.abc import Mapping

MESSAGES: Mapping[str, Mapping[str, str]] = {
    "en": {
        "welcome": "Welcome, {uid}. I remind you of what is due, and read your photographed schedules.\n\n{help}",
        "linked": "You are {uid} now. I will write to you here.",
        "help_greeting": "You are {uid}.\n\n{help}",
        "help": "/today - your day\n/upcoming - what is coming\n/start_session - begin to send screenshots\n"
        "/done - all screenshots are sent\n/help - this list\n\nSend screenshots as files: PNG, JPEG or WebP.",
        "bot_private": "This bot is private.",
        "person_unknown": "I do not know you yet. Ask for a link, and open it here.",
        "link_invalid": "This link does not work: it has expired, was used, or was not made by me. Ask for a new one.",
        "account_taken": "This Telegram account is linked to {uid} already. To link it to another person, ask your "
        "administrator for: duly people unlink-telegram {uid}",
        "link_person_taken": "The person of this link has another Telegram account already. Ask your administrator "
        "for: duly people unlink-telegram",
        "rate_limited": "That is a lot at once. Please wait a little and send it again.",
        "failed": "Something went wrong, and the error was logged. Please try again later.",
        "session_opened": "The session is open. Send the screenshots as files, then /done.",
        "session_open": "Your session is open and has {images}. Send more, or /done.",
        "session_already_closed": "That session is closed already. /start_session begins another.",
        "image_added": "Screenshot {number} is in your session. Send more, then /done.",
        "image_received": "Received. I will tell you what changed once it is read.",
        "session_closed": "The session is closed with {images}. I will tell you what changed once it is read.",
        "no_open_session": "No session is open. /start_session begins one.",
        "session_empty": "Your session has no screenshot yet. Send some as files, then /done.",
        "session_still_open": "Your session is open and has {images}. /done closes it.",
        "photo_compressed": "Telegram has compressed this photo, which makes small letters unreadable. Please send it "
        "as a file (attach, then File).",
        "not_an_image": "I cannot read this. Send screenshots as files: whole PNG, JPEG or WebP, at most {megabytes} "
        "MB and 40 million pixels.",
        "file_too_large": "This file is too large. At most {megabytes} MB, please.",
        "session_full": "This session has {images} and accepts no more. /done closes it.",
        "file_gone": "Telegram no longer has this file. Please send it again.",
        "unknown_command": "I did not understand that.\n\n{help}",
        "one_image": "1 screenshot",
        "image_count": "{count} screenshots",
        "button_invalid": "This button was not made for this chat, or is too old.",
        "run_not_found": "This reminder no longer exists.",
        "already_answered": "It was answered already: {receipt}",
        "run_closed": "This reminder is closed and accepts no answer: {reason}",
        "button_reused": "This button was used for another answer already.",
        "reminder_not_sent": "It cannot be postponed yet: it is not known yet that the reminder arrived. Please try "
        "again later.",
        "newer_reminder": "You have been reminded again since. Please answer the newer message.",
        "today_title": "Today, {day}",
        "day_unknown": "No schedule is known for this day.",
        "day_empty": "Nothing is on the schedule.",
        "reminders_title": "Reminders:",
        "upcoming_title": "What is coming:",
        "upcoming_empty": "Nothing is coming.",
        "status_pending": "to come",
        "status_sent": "waits for your answer",
        "status_snoozed": "later",
        "status_confirmed": "done",
        "status_skipped": "skipped",
        "status_cancelled": "cancelled",
        "shift_cancelled": "cancelled",
    },
    "sv": {
        "welcome": "Välkommen, {uid}. Jag påminner om det som ska göras och läser fotograferade scheman.\n\n{help}",
        "linked": "Du är {uid} nu. Jag skriver till dig här.",
        "help_greeting": "Du är {uid}.\n\n{help}",
        "help": "/today - din dag\n/upcoming - det som kommer\n/start_session - börja skicka skärmbilder\n"
        "/done - alla skärmbilder är skickade\n/help - denna lista\n\n"
        "Skicka skärmbilder som filer: PNG, JPEG eller WebP.",
        "bot_private": "Den här boten är privat.",
        "person_unknown": "Jag känner dig inte än. Be om en länk och öppna den här.",
        "link_invalid": "Länken fungerar inte: den har gått ut, är använd eller kommer inte från mig. Be om en ny.",
        "account_taken": "Det här Telegramkontot är redan {uid}, och är bara en person. Be om detta för att byta: "
        "duly people unlink-telegram {uid}",
        "link_person_taken": "Personen i länken har redan ett annat Telegramkonto. Be om: duly people unlink-telegram",
        "rate_limited": "Det var mycket på en gång. Vänta lite och skicka igen.",
        "failed": "Något gick fel här, och det är antecknat. Försök igen om en stund.",
        "session_opened": "Sessionen är öppen. Skicka skärmbilderna som filer, sedan /done.",
        "session_open": "Din session är öppen och har {images}. Skicka fler, eller /done.",
        "session_already_closed": "Den sessionen är redan stängd. /start_session börjar en ny.",
        "image_added": "Skärmbild {number} är i din session. Skicka fler, sedan /done.",
        "image_received": "Jag har den, och berättar vad som ändrats när den är läst.",
        "session_closed": "Sessionen är stängd med {images}. Jag berättar vad som ändrats när den är läst.",
        "no_open_session": "Ingen session är öppen. /start_session börjar en.",
        "session_empty": "Din session har ingen skärmbild än. Skicka några som filer, sedan /done.",
        "session_still_open": "Din session är öppen och har {images}. /done stänger den.",
        "photo_compressed": "Telegram har komprimerat fotot, och små bokstäver går förlorade. Skicka det som fil "
        "(bifoga, sedan Fil).",
        "not_an_image": "Det här kan jag inte läsa. Skicka skärmbilder som filer: hela PNG, JPEG eller WebP, högst "
        "{megabytes} MB och 40 miljoner bildpunkter.",
        "file_too_large": "Filen är för stor. Högst {megabytes} MB.",
        "session_full": "Sessionen har {images} och tar inte fler. /done stänger den.",
        "file_gone": "Telegram ger mig inte filen längre. Skicka den igen.",
        "unknown_command": "Det förstod jag inte.\n\n{help}",
        "one_image": "1 skärmbild",
        "image_count": "{count} skärmbilder",
        "button_invalid": "Knappen är inte gjord för den här chatten, eller är för gammal för mig.",
        "run_not_found": "Den finns inte längre.",
        "already_answered": "Den är redan besvarad: {receipt}",
        "run_closed": "Den är över och tar inget svar: {reason}",
        "button_reused": "Knappen står redan för ett annat svar.",
        "reminder_not_sent": "Den kan inte skjutas upp än: det är inte känt att påminnelsen kom fram. Försök igen "
        "senare.",
        "newer_reminder": "Du har påmints igen sedan dess. Svara på det nyare meddelandet.",
        "today_title": "I dag, {day}",
        "day_unknown": "Inget schema är känt för dagen.",
        "day_empty": "Inget står på schemat.",
        "reminders_title": "Påminnelser:",
        "upcoming_title": "Det som kommer:",
        "upcoming_empty": "Inget är på väg.",
        "status_pending": "kommer",
        "status_sent": "väntar på ditt svar",
        "status_snoozed": "senare",
        "status_confirmed": "klart",
        "status_skipped": "överhoppad",
        "status_cancelled": "avbruten",
        "shift_cancelled": "avbokat",
    },
    "zh": {
        "welcome": "欢迎，{uid}。我会提醒您到期事项，并识别您拍摄的日程。\n\n{help}",
        "linked": "您现在是 {uid}。我会在这里给您发消息。",
        "help_greeting": "您是 {uid}。\n\n{help}",
        "help": "/today - 今天\n/upcoming - 即将到期\n/start_session - 开始发送截图\n/done - 截图发送完毕\n"
        "/help - 本列表\n\n请以文件形式发送截图：PNG、JPEG 或 WebP。",
        "bot_private": "这是私人机器人。",
        "person_unknown": "我还不认识您。请索取链接并在这里打开。",
        "link_invalid": "此链接无效：已过期、已使用，或不是我生成的。请索取新的链接。",
        "account_taken": "此 Telegram 账号已是 {uid}，一个账号只对应一个人。如需更换，"
        "请让管理员执行：duly people unlink-telegram {uid}",
        "link_person_taken": "此链接对应的人已绑定另一个 Telegram 账号。请让管理员执行：duly people unlink-telegram",
        "rate_limited": "一次发送太多了，请稍等再发。",
        "failed": "这里出了错，已记录下来。请稍后再试。",
        "session_opened": "会话已开始。请以文件形式发送截图，然后 /done。",
        "session_open": "您的会话已有{images}。继续发送，或 /done。",
        "session_already_closed": "该会话已关闭。/start_session 可开始新的会话。",
        "image_added": "第 {number} 张截图已收入会话。继续发送，然后 /done。",
        "image_received": "已收到，识别后会告诉您有什么变化。",
        "session_closed": "会话已关闭，共{images}。识别后会告诉您有什么变化。",
        "no_open_session": "没有进行中的会话。/start_session 可开始一个。",
        "session_empty": "您的会话还没有截图。请以文件形式发送，然后 /done。",
        "session_still_open": "您的会话已有{images}。/done 可关闭它。",
        "photo_compressed": "Telegram 压缩了这张照片，小字会丢失。请以文件形式发送（附件，然后选“文件”）。",
        "not_an_image": "无法识别此内容。请以文件形式发送完整的 PNG、JPEG 或 WebP 截图，"
        "最大 {megabytes} MB、4000 万像素。",
        "file_too_large": "文件太大，最大 {megabytes} MB。",
        "session_full": "此会话已有{images}，不能再加。/done 可关闭它。",
        "file_gone": "Telegram 已不再提供此文件，请重新发送。",
        "unknown_command": "我没有明白。\n\n{help}",
        "one_image": " 1 张截图",
        "image_count": " {count} 张截图",
        "button_invalid": "此按钮不属于这个聊天，或已太旧。",
        "run_not_found": "该事项已不存在。",
        "already_answered": "已回复过：{receipt}",
        "run_closed": "已结束，不再接受回复：{reason}",
        "button_reused": "此按钮已对应另一个回复。",
        "reminder_not_sent": "暂时不能推迟：尚未确认提醒已送达，请稍后再试。",
        "newer_reminder": "之后已再次提醒您，请回复较新的消息。",
        "today_title": "今天，{day}",
        "day_unknown": "没有这一天的日程。",
        "day_empty": "日程为空。",
        "reminders_title": "提醒：",
        "upcoming_title": "即将到期：",
        "upcoming_empty": "没有即将到期的事项。",
        "status_pending": "待提醒",
        "status_sent": "等待您的回复",
        "status_snoozed": "稍后",
        "status_confirmed": "已完成",
        "status_skipped": "已跳过",
        "status_cancelled": "已取消",
        "shift_cancelled": "已取消",
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


def translate(language: str, key: str, **values: object) -> str:
    """Return a message in a language, or in English when the language is not supported."""
    messages = MESSAGES.get(language, MESSAGES["en"])
    return messages[key].format(help=messages["help"], **values)


def parse_language(code: str | None) -> str:
    """Return the language in the code that a Telegram app sends, such as `zh` in `zh-hans`; English by default."""
    language = (code or "en").split("-")[0].lower()
    return language if 2 <= len(language) <= 3 and language.isascii() and language.isalpha() else "en"


def format_image_count(language: str, count: int) -> str:
    """Format a number of screenshots."""
    return translate(language, "one_image") if count == 1 else translate(language, "image_count", count=count)
