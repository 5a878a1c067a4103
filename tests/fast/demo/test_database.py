"""The demo's story on a database without a worker: it ends by saying which step did not come, and why."""

from tools.demo.stage import message_in


def test_message_in_returns_exactly_one_complete_message() -> None:
    log = "\n".join(
        (
            '{"event": "worker.started"}',
            "--- to anna (reminder.due, one)",
            "    Music",
            "    [Done]  duly schedule answer 1 complete",
            "--- to anna (reminder.due, another)",
            "    Other",
            '{"event": "worker.stopped"}',
        )
    )
    assert message_in(log, "one") == "\n".join(log.splitlines()[1:4])
    assert message_in(log, "another") == "\n".join(log.splitlines()[4:6])
    assert message_in(log, "third") is None
