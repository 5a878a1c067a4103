"""The console: messages with the commands that answer them, and nothing that steers a terminal."""

import io

from duly.outbox.channel import OutboundMessage
from duly.outbox.channels.console import ConsoleChannel


async def test_reminder_is_printed_with_its_buttons_and_answer_commands() -> None:
    out = io.StringIO()
    payload = {
        "job_run_id": 7,
        "text": "Rent\nDue 2026-11-16 10:00 (UTC)",
        "buttons": [
            {"action": "complete", "label": "Done", "key": "7:1:complete"},
            {"action": "snooze", "label": "In 1 hour", "key": "7:1:snooze:60", "payload": {"minutes": 60}},
        ],
    }
    await ConsoleChannel(out).send(
        OutboundMessage("m1", "console", "anna", "reminder.due", payload, "2026-11-16T10:00:00Z")
    )
    assert out.getvalue() == (
        "--- to anna (reminder.due, m1)\n"
        "    Rent\n"
        "    Due 2026-11-16 10:00 (UTC)\n"
        "    [Done]  duly schedule answer 7 complete --key 7:1:complete\n"
        "    [In 1 hour]  duly schedule answer 7 snooze --key 7:1:snooze:60 --minutes 60\n"
    )


async def test_message_without_a_text_is_announced_without_its_stored_payload() -> None:
    out = io.StringIO()
    await ConsoleChannel(out).send(
        OutboundMessage("m1", "console", "anna", "post.released", {"postId": "p"}, "2026-11-16T10:00:00Z")
    )
    assert out.getvalue().splitlines()[1:] == ["    There is news for you: post.released."]


async def test_control_characters_in_a_message_are_replaced() -> None:
    out = io.StringIO()
    await ConsoleChannel(out).send(
        OutboundMessage("m1", "console", "anna", "x", {"text": "a\x1b[2Jb\rc\x07"}, "2026-11-16T10:00:00Z")
    )
    assert "a\N{REPLACEMENT CHARACTER}[2Jb\N{REPLACEMENT CHARACTER}c\N{REPLACEMENT CHARACTER}" in out.getvalue()
