"""Screenshots that people send: each taken once, into the right session, and nothing else is taken."""

import pytest

from duly.errors import Misconfigured, Unavailable
from duly.storage.directory import Directory
from duly.telegram.dispatcher import MAX_TRIES
from tests.fast.telegram.test_captures import PNG
from tests.support.deadly import die_of
from tests.support.storage.pictures import gradient, png_claiming, written
from tests.support.telegram.hands import House

JPEG = written(gradient())


async def test_a_session_takes_screenshots_until_it_is_done(house: House) -> None:
    anna = house.telegram.person(42)
    async with house.listening():
        anna.say("/start_session")
        for data, name in ((PNG, "a.png"), (JPEG, "b.jpg")):
            anna.send_file(data, name)
        anna.say("/done")
        await house.wait(lambda: len(anna.read()) == 4)
    assert [text.split(".")[0] for text in anna.read()] == [
        "The session is open",
        "Screenshot 1 is in your session",
        "Screenshot 2 is in your session",
        "The session is closed with 2 screenshots",
    ]
    assert house.sessions() == [(True, 2)]
    keys = house.schedules.values("select r2_key from schedule_ingest.capture_image order by sequence")
    assert [key.rpartition(".")[2] for key in keys] == ["png", "jpg"]
    for key in keys:
        assert await house.objects.exists(key)


async def test_a_screenshot_alone_is_a_session_of_its_own_closed_at_once(house: House) -> None:
    anna = house.telegram.person(42)
    async with house.listening():
        anna.send_file(PNG)
        anna.send_file(PNG)
        await house.wait(lambda: len(anna.read()) == 2)
    assert anna.read() == ["I have it, and tell you what changed once it is read."] * 2
    assert house.sessions() == [(True, 1), (True, 1)]


async def test_screenshots_that_were_sent_together_share_a_session(house: House) -> None:
    anna = house.telegram.person(42)
    async with house.listening():
        for _ in range(3):
            anna.send_file(PNG, media_group_id="77")
        anna.say("/close")
        await house.wait(lambda: len(anna.read()) == 4)
    assert house.sessions() == [(True, 3)]


async def test_a_session_of_screenshots_sent_together_takes_no_other(house: House) -> None:
    anna = house.telegram.person(42)
    async with house.listening():
        anna.send_file(PNG, media_group_id="77")
        anna.send_file(PNG)  # of another day
        anna.send_file(PNG, media_group_id="77")
        anna.send_file(PNG, media_group_id="78")
        anna.say("/start_session")
        anna.send_file(PNG, media_group_id="79")
        anna.send_file(PNG)
        anna.say("/done")
        await house.wait(lambda: len(anna.read()) == 8)
    assert anna.read()[1].startswith("I have it")
    assert anna.read()[-1].startswith("The session is closed with 2 screenshots")
    assert house.sessions() == [(False, 2), (True, 1), (False, 1), (True, 2)]


@pytest.mark.parametrize(
    ("data", "name", "mime"),
    [
        (b"%PDF-1.7 and so on, page after page", "day.pdf", "application/pdf"),
        (b"GIF89a" + bytes(100), "day.gif", "image/gif"),
        (PNG[: len(PNG) // 2], "half.png", "image/png"),
        (b"\x89PNG\r\n\x1a\n" + bytes(500), "fake.png", "image/png"),
        (png_claiming(60_000, 60_000), "bomb.png", "image/png"),
        (b"", "empty.png", "image/png"),
    ],
    ids=["pdf", "gif", "half", "fake", "bomb", "empty"],
)
async def test_what_is_no_picture_of_ours_is_refused_with_what_would_do(
    data: bytes, name: str, mime: str, house: House
) -> None:
    anna = house.telegram.person(42)
    async with house.listening():
        anna.send_file(data, name, mime)
        await house.wait(anna.read)
    assert "I cannot read this" in anna.read()[0]
    assert house.sessions() == []
    assert house.telegram.waiting() == []


async def test_a_picture_under_a_foreign_name_is_known_by_its_bytes(house: House) -> None:
    anna = house.telegram.person(42)
    async with house.listening():
        anna.send_file(PNG, "day.bin", "application/octet-stream")
        await house.wait(anna.read)
    assert house.sessions() == [(True, 1)]


async def test_a_file_that_telegram_does_not_give_is_waited_for_and_taps_go_on_meanwhile(house: House) -> None:
    anna = house.telegram.person(42)
    message = await house.remind(anna)
    house.telegram.is_shut = True
    anna.send_file(PNG)
    async with house.listening():
        await house.wait(lambda: len(house.telegram.called("getFile")) > MAX_TRIES)
        anna.press(message, "Done")
        await house.wait(house.answers)
        assert house.telegram.waiting()
        house.telegram.is_shut = False
        await house.wait(lambda: not house.telegram.waiting())
    assert anna.read()[1:] == ["I have it, and tell you what changed once it is read."]
    assert house.sessions() == [(True, 1)]


async def test_however_often_a_file_is_tried_it_was_sent_once_and_is_never_too_much(house: House) -> None:
    anna = house.telegram.person(42)
    house.telegram.is_shut = True
    async with house.listening() as poller:
        poller.reception.desk.rate.burst = 2
        anna.send_file(PNG)
        await house.wait(lambda: len(house.telegram.called("getFile")) > MAX_TRIES)
        house.telegram.is_shut = False
        await house.wait(lambda: not house.telegram.waiting())
    assert anna.read() == ["I have it, and tell you what changed once it is read."]
    assert house.sessions() == [(True, 1)]


async def test_a_screenshot_that_cannot_be_kept_is_waited_for(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    anna = house.telegram.person(42)
    put, tries = Directory.put, iter(range(10))

    async def refuse_at_first(place: Directory, name: str, data: bytes) -> None:
        if (nth := next(tries)) <= MAX_TRIES:
            raise (Misconfigured if nth else Unavailable)("the store has another key today")
        await put(place, name, data)

    monkeypatch.setattr(Directory, "put", refuse_at_first)
    async with house.listening():
        anna.send_file(PNG)
        await house.wait(anna.read)
    assert anna.read() == ["I have it, and tell you what changed once it is read."]
    assert house.sessions() == [(True, 1)]


async def test_a_file_that_never_comes_is_told_to_its_person_in_their_language(house: House) -> None:
    anna = house.telegram.person(42, "en")
    house.schedules.add_user("anna", telegram_id=42, language="sv")
    house.telegram.is_shut = True
    async with house.listening() as poller:
        poller.reception.patience_seconds = 0.5
        anna.send_file(PNG)
        anna.say("/help")
        await house.wait(lambda: len(anna.read()) == 2)
        await house.wait(lambda: not house.telegram.waiting())
    assert anna.read()[0].startswith("Något gick fel här")
    assert house.sessions() == []


async def test_a_picture_that_kills_whoever_decodes_it_is_refused_and_the_bot_goes_on(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna = house.telegram.person(42)
    monkeypatch.setattr("duly.telegram.captures.clean_screenshot", die_of)
    async with house.listening():
        anna.send_file(PNG)
        await house.wait(anna.read)
        await house.wait(lambda: not house.telegram.waiting())
        monkeypatch.undo()
        anna.send_file(PNG)
        await house.wait(lambda: len(anna.read()) == 2)
    assert "I cannot read this" in anna.read()[0]
    assert anna.read()[1].startswith("I have it")
    assert house.sessions() == [(True, 1)]


async def test_a_session_takes_fifty_and_says_so(house: House) -> None:
    anna = house.telegram.person(42)
    async with house.listening():
        anna.say("/start_session")
        await house.wait(anna.read)
        house.schedules.admin.execute(
            "insert into schedule_ingest.capture_image (session_id, sequence, r2_key)"
            " select s.id, n, 'x' || n from schedule_ingest.capture_session s, generate_series(1, 50) n"
        )
        anna.send_file(PNG)
        await house.wait(lambda: len(anna.read()) == 2)
    assert "takes no more" in anna.read()[1]
    assert house.sessions() == [(False, 50)]


async def test_everything_that_comes_again_in_the_same_order_changes_nothing(house: House) -> None:
    """As after a crash: a whole batch of updates, from its first, though all of it was done."""
    anna = house.telegram.person(42)
    batch = [
        anna.say("/start_session"),
        anna.send_file(PNG),
        anna.say("/done"),
        anna.say("/start_session"),
        anna.send_file(JPEG),
        anna.say("/done"),
        anna.send_file(PNG),
        anna.say("/start_session"),
        anna.send_file(PNG),
    ]
    async with house.listening():
        await house.wait(lambda: len(anna.read()) == len(batch))
        before = house.sessions()
        files = len(house.telegram.called("getFile"))
        for update in batch:
            house.telegram.on_loop(house.telegram.add_update, {"message": update["message"]})
        await house.wait(lambda: len(anna.read()) == 2 * len(batch))
    assert before == [(True, 1), (True, 1), (True, 1), (False, 1)]
    assert house.sessions() == before
    assert len(house.telegram.called("getFile")) == files
