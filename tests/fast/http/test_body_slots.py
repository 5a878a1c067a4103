"""Slots for large request bodies: one caller never gets all of them."""

import asyncio

from duly.http.body_slots import BodySlots, Slot


async def test_one_caller_gets_half_of_the_slots_and_each_other_a_share() -> None:
    slots = BodySlots(32)
    for _ in range(16):
        await slots.acquire("bert")
    assert not slots.has_free_slot("bert")
    for _ in range(4):
        await slots.acquire("anna")
    assert not slots.has_free_slot("anna")
    for other in ("carl", "dora", "emil"):
        for _ in range(4):
            await slots.acquire(other)
    assert slots.used.total() == 32
    assert not slots.has_free_slot("frida")


async def test_a_released_slot_goes_to_a_waiting_caller() -> None:
    slots = BodySlots(8)
    for _ in range(4):
        await slots.acquire("bert")
    waiting = asyncio.create_task(slots.acquire("bert"))
    done, _ = await asyncio.wait([waiting], timeout=0.01)
    assert not done
    slots.release("bert")
    await asyncio.wait_for(waiting, 10)
    assert slots.used == {"bert": 4}


async def test_caller_that_released_its_slots_is_removed() -> None:
    slots = BodySlots(8)
    with Slot(slots, "anna") as slot:
        await slot.acquire()
        assert slots.used == {"anna": 1}
    assert not slots.used
