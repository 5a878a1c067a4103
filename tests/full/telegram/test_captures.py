"""Screenshots: each is added once, to the right session, and nothing else is accepted."""

import pytest

from duly.errors import Misconfigured, Unavailable
from duly.storage.directory import Directory
from duly.telegram.dispatcher import MAX_FAILURES
from tests.fast.telegram.test_captures import PNG
from tests.support.crashing_decoder import crash
from tests.support.storage.pictures import gradient, png_with_header, written
from tests.support.telegram.environment import BotTestEnvironment

JPEG = written(gradient())


async def test_a_capture_session_accepts_screenshots_until_done(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    async with env.listening():
        anna.send_text("/start_session")
        for data, name in ((PNG, "a.png"), (JPEG, "b.jpg")):
            anna.send_file(data, name)
        anna.send_text("/done")
        await env.wait(lambda: len(anna.texts()) == 4)
    assert [text.split(".")[0] for text in anna.texts()] == [
        "The session is open",
        "Screenshot 1 is in your session",
        "Screenshot 2 is in your session",
        "The session is closed with 2 screenshots",
    ]
    assert env.sessions() == [(True, 2)]
    keys = env.schedules.values("select r2_key from schedule_ingest.capture_image order by sequence")
    assert [key.rpartition(".")[2] for key in keys] == ["png", "jpg"]
    for key in keys:
        assert await env.objects.exists(key)


async def test_a_screenshot_outside_a_session_becomes_its_own_closed_session(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    async with env.listening():
        anna.send_file(PNG)
        anna.send_file(PNG)
        await env.wait(lambda: len(anna.texts()) == 2)
    assert anna.texts() == ["Received. I will tell you what changed once it is read."] * 2
    assert env.sessions() == [(True, 1), (True, 1)]


async def test_screenshots_of_one_media_group_share_a_session(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    async with env.listening():
        for _ in range(3):
            anna.send_file(PNG, media_group_id="77")
        anna.send_text("/close")
        await env.wait(lambda: len(anna.texts()) == 4)
    assert env.sessions() == [(True, 3)]


async def test_the_session_of_a_media_group_accepts_no_other_screenshot(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    async with env.listening():
        anna.send_file(PNG, media_group_id="77")
        anna.send_file(PNG)  # of another day
        anna.send_file(PNG, media_group_id="77")
        anna.send_file(PNG, media_group_id="78")
        anna.send_text("/start_session")
        anna.send_file(PNG, media_group_id="79")
        anna.send_file(PNG)
        anna.send_text("/done")
        await env.wait(lambda: len(anna.texts()) == 8)
    assert anna.texts()[1].startswith("Received")
    assert anna.texts()[-1].startswith("The session is closed with 2 screenshots")
    assert env.sessions() == [(False, 2), (True, 1), (False, 1), (True, 2)]


@pytest.mark.parametrize(
    ("data", "name", "mime"),
    [
        (b"%PDF-1.7 and so on, page after page", "day.pdf", "application/pdf"),
        (b"GIF89a" + bytes(100), "day.gif", "image/gif"),
        (PNG[: len(PNG) // 2], "half.png", "image/png"),
        (b"\x89PNG\r\n\x1a\n" + bytes(500), "fake.png", "image/png"),
        (png_with_header(60_000, 60_000), "bomb.png", "image/png"),
        (b"", "empty.png", "image/png"),
    ],
    ids=["pdf", "gif", "half", "fake", "bomb", "empty"],
)
async def test_a_file_that_is_no_supported_image_is_refused_with_the_supported_formats(
    data: bytes, name: str, mime: str, env: BotTestEnvironment
) -> None:
    anna = env.telegram.person(42)
    async with env.listening():
        anna.send_file(data, name, mime)
        await env.wait(anna.texts)
    assert "I cannot read this" in anna.texts()[0]
    assert env.sessions() == []
    assert env.telegram.waiting() == []


async def test_an_image_is_recognised_by_its_bytes_and_not_its_name(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    async with env.listening():
        anna.send_file(PNG, "day.bin", "application/octet-stream")
        await env.wait(anna.texts)
    assert env.sessions() == [(True, 1)]


async def test_a_file_download_is_retried_while_taps_are_still_processed(
    env: BotTestEnvironment,
) -> None:
    anna = env.telegram.person(42)
    message = await env.remind(anna)
    env.telegram.is_file_server_down = True
    anna.send_file(PNG)
    async with env.listening():
        await env.wait(lambda: len(env.telegram.called("getFile")) > MAX_FAILURES)
        anna.press(message, "Done")
        await env.wait(env.answers)
        assert env.telegram.waiting()
        env.telegram.is_file_server_down = False
        await env.wait(lambda: not env.telegram.waiting())
    assert anna.texts()[1:] == ["Received. I will tell you what changed once it is read."]
    assert env.sessions() == [(True, 1)]


async def test_retries_of_a_file_download_do_not_count_towards_the_rate_limit(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    env.telegram.is_file_server_down = True
    async with env.listening() as poller:
        poller.dispatcher.services.rate.burst = 2
        anna.send_file(PNG)
        await env.wait(lambda: len(env.telegram.called("getFile")) > MAX_FAILURES)
        env.telegram.is_file_server_down = False
        await env.wait(lambda: not env.telegram.waiting())
    assert anna.texts() == ["Received. I will tell you what changed once it is read."]
    assert env.sessions() == [(True, 1)]


async def test_storing_a_screenshot_is_retried_until_the_object_store_works(
    env: BotTestEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna = env.telegram.person(42)
    put, tries = Directory.put, iter(range(10))

    async def refuse_at_first(place: Directory, name: str, data: bytes) -> None:
        if (nth := next(tries)) <= MAX_FAILURES:
            raise (Misconfigured if nth else Unavailable)("the store has another key today")
        await put(place, name, data)

    monkeypatch.setattr(Directory, "put", refuse_at_first)
    async with env.listening():
        anna.send_file(PNG)
        await env.wait(anna.texts)
    assert anna.texts() == ["Received. I will tell you what changed once it is read."]
    assert env.sessions() == [(True, 1)]


async def test_a_file_that_cannot_be_downloaded_is_reported_in_the_users_language(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42, "en")
    env.schedules.add_user("anna", telegram_id=42, language="sv")
    env.telegram.is_file_server_down = True
    async with env.listening() as poller:
        poller.dispatcher.max_retry_seconds = 0.5
        anna.send_file(PNG)
        anna.send_text("/help")
        await env.wait(lambda: len(anna.texts()) == 2)
        await env.wait(lambda: not env.telegram.waiting())
    assert anna.texts()[0].startswith("Något gick fel här")
    assert env.sessions() == []


async def test_an_image_that_crashes_the_decoder_is_refused_and_the_bot_continues(
    env: BotTestEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna = env.telegram.person(42)
    monkeypatch.setattr("duly.telegram.captures.clean_screenshot", crash)
    async with env.listening():
        anna.send_file(PNG)
        await env.wait(anna.texts)
        await env.wait(lambda: not env.telegram.waiting())
        monkeypatch.undo()
        anna.send_file(PNG)
        await env.wait(lambda: len(anna.texts()) == 2)
    assert "I cannot read this" in anna.texts()[0]
    assert anna.texts()[1].startswith("Received")
    assert env.sessions() == [(True, 1)]


async def test_a_capture_session_accepts_fifty_images_and_refuses_more(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    async with env.listening():
        anna.send_text("/start_session")
        await env.wait(anna.texts)
        env.schedules.admin.execute(
            "insert into schedule_ingest.capture_image (session_id, sequence, r2_key)"
            " select s.id, n, 'x' || n from schedule_ingest.capture_session s, generate_series(1, 50) n"
        )
        anna.send_file(PNG)
        await env.wait(lambda: len(anna.texts()) == 2)
    assert "accepts no more" in anna.texts()[1]
    assert env.sessions() == [(False, 50)]


async def test_replaying_a_batch_of_updates_in_order_changes_nothing(env: BotTestEnvironment) -> None:
    """Repeat a full batch of processed updates, as after a crash."""
    anna = env.telegram.person(42)
    batch = [
        anna.send_text("/start_session"),
        anna.send_file(PNG),
        anna.send_text("/done"),
        anna.send_text("/start_session"),
        anna.send_file(JPEG),
        anna.send_text("/done"),
        anna.send_file(PNG),
        anna.send_text("/start_session"),
        anna.send_file(PNG),
    ]
    async with env.listening():
        await env.wait(lambda: len(anna.texts()) == len(batch))
        before = env.sessions()
        files = len(env.telegram.called("getFile"))
        for update in batch:
            env.telegram.call_on_loop(env.telegram.add_update, {"message": update["message"]})
        await env.wait(lambda: len(anna.texts()) == 2 * len(batch))
    assert before == [(True, 1), (True, 1), (True, 1), (False, 1)]
    assert env.sessions() == before
    assert len(env.telegram.called("getFile")) == files
