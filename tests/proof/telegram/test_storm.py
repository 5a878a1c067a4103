"""Many concurrent button presses while bots are killed: one effect per run, and no update is lost."""

import random
from collections import Counter

from tests.support.storage.pictures import gradient, written
from tests.support.telegram.environment import BotTestEnvironment

RUNS = 4
TAPS = 12
LABELS = ("Done", "Skip", "In 1 hour", "In 1 hour", "Tomorrow")


async def test_taps_from_two_devices_through_killed_bots_have_one_effect_per_run(
    env: BotTestEnvironment,
) -> None:
    chance = random.Random(7)  # noqa: S311
    anna = env.telegram.person(42)
    for nth in range(RUNS):
        await env.remind(anna, name=f"Rent {nth}")
    messages = anna.messages()
    assert len(messages) == RUNS
    taps = [(message, chance.choice(LABELS)) for message in messages for _ in range(TAPS)]
    chance.shuffle(taps)
    later = [(message, "In 1 hour") for message in messages]
    taps = [*later, *taps, *later]  # at first it counts, and at last it is long over
    queries = [anna.press(message, label) for message, label in taps[: len(taps) // 2]]
    for point in ("after_work:1", "before_settle:2", "after_work:3"):  # as by kill -9, between effect and confirmation
        with env.bot_process(DULY_CRASHPOINT=point) as bot:
            assert bot.process.wait(120) == 137, bot.stderr_text()
    queries += [anna.press(message, label) for message, label in taps[len(taps) // 2 :]]
    with env.bot_process() as bot:
        await env.wait(lambda: any(query.answered for query in queries[-5:]))
        bot.kill()
    with env.bot_process() as bot:
        await env.wait(lambda: not env.telegram.waiting())
        assert bot.finish(15) == 0
    answers = Counter(env.answers())
    completed = answers["complete"]
    assert completed + answers["skip"] == RUNS
    assert 0 < answers["snooze"] <= 2 * RUNS  # each of the two once, and never after the end
    assert env.booked() == ["9.99 EUR"] * completed
    assert all(status in ("confirmed", "skipped") for status in env.schedules.runs("status"))
    assert all(("Done" in text or "Skipped" in text) for text in anna.texts())
    assert all("reply_markup" not in message for message in anna.messages())


async def test_a_killed_bot_loses_no_screenshot_and_stores_none_twice(env: BotTestEnvironment) -> None:
    png = written(gradient(), "PNG")
    anna = env.telegram.person(42)
    anna.send_text("/start_session")
    for _ in range(3):
        anna.send_file(png)
    anna.send_text("/done")
    anna.send_file(png)
    for point in ("after_work:2", "after_work:3", "after_work:4", "before_settle:2"):
        with env.bot_process(DULY_CRASHPOINT=point) as bot:
            assert bot.process.wait(120) == 137, bot.stderr_text()
    with env.bot_process() as bot:
        await env.wait(lambda: not env.telegram.waiting())
        assert bot.finish(15) == 0
    assert env.sessions() == [(True, 3), (True, 1)]
    keys = env.schedules.values("select r2_key from schedule_ingest.capture_image")
    assert len(set(keys)) == 4
    for key in keys:
        assert await env.objects.exists(key)


async def test_the_bot_never_logs_its_token(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    anna.send_file(written(gradient(), "PNG"))
    env.telegram.files["file-1"] = b""
    env.telegram.plan_errors(502, "Bad Gateway", "getUpdates")
    with env.bot_process(DULY_LOG_LEVEL="debug") as bot:
        await env.wait(lambda: not env.telegram.waiting())
        assert bot.finish(15) == 0
        log_text = bot.stderr_text()
    assert "telegram.polling_started" in log_text
    assert env.telegram.token.partition(":")[2] not in log_text
