"""Places for large bodies: one caller never takes those of all others."""

import asyncio

from duly.http.request_limits import Room


async def test_one_caller_gets_half_and_each_other_a_share() -> None:
    room = Room(32)
    for _ in range(16):
        await room.take("bert")
    assert not room.has_place_for("bert")
    for _ in range(4):
        await room.take("anna")
    assert not room.has_place_for("anna")
    for other in ("carl", "dora", "emil"):
        for _ in range(4):
            await room.take(other)
    assert room.held.total() == 32
    assert not room.has_place_for("frida")


async def test_a_place_that_is_given_back_goes_to_who_waits_for_one() -> None:
    room = Room(8)
    for _ in range(4):
        await room.take("bert")
    waiting = asyncio.create_task(room.take("bert"))
    done, _ = await asyncio.wait([waiting], timeout=0.01)
    assert not done
    room.release("bert")
    await asyncio.wait_for(waiting, 10)
    assert room.held == {"bert": 4}


async def test_who_gave_back_everything_is_forgotten() -> None:
    room = Room(8)
    async with room.place("anna") as place:
        await place.take()
        assert room.held == {"anna": 1}
    assert not room.held
