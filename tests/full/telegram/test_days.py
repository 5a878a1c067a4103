"""What a person asks of their days."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from psycopg.types.json import Jsonb

from tests.support.telegram.hands import House

FAR = "Pacific/Auckland"  # where it is often another day than here
SHIFT = {
    "start": "10:00",
    "end": "14:00",
    "customer_name": "Anna Svensson",
    "street": "Storgatan",
    "street_number": "12",
    "city": "Göteborg",
}
DAY = """
with session as (
    insert into schedule_ingest.capture_session (user_id) values (42) returning id
)
insert into schedule_ingest.day_snapshot
    (user_id, schedule_date, snapshot_payload, source_session_id)
select 42, %s, %s, id from session
"""


async def test_upcoming_lists_open_runs_and_next_firings_by_the_persons_clock(house: House) -> None:
    anna = house.telegram.person(42)
    await house.remind(anna)
    async with house.listening():
        anna.say("/upcoming")
        await house.wait(lambda: len(anna.read()) == 2)
    assert anna.read()[1].splitlines() == [
        "What is coming:",
        "2026-11-16 11:00  Rent: waits for your answer",
        "2026-11-17 11:00  Rent: to come",
    ]


async def test_upcoming_says_when_nothing_is_coming(house: House) -> None:
    anna = house.telegram.person(42, "zh")
    async with house.listening():
        anna.say("/upcoming")
        await house.wait(anna.read)
    assert anna.read() == ["没有即将到期的事项。"]


@pytest.mark.lawless  # a day without its events
async def test_today_is_the_persons_own_day_with_its_schedule_and_its_reminders(house: House) -> None:
    anna = house.telegram.person(42)
    house.schedules.add_user("anna", telegram_id=42, zone=FAR)
    house.schedules.set_clock("2031-11-16T12:00:00+00:00")
    day = date(2031, 11, 17)  # over there, by the clock of the database
    house.schedules.admin.execute(DAY.encode(), [day, Jsonb([SHIFT])])
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=ZoneInfo(FAR))
    schedule = await house.schedules.create(first_run_at=datetime(2025, 1, 1, tzinfo=UTC))
    house.schedules.admin.execute(
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at) values (%s, 'today', %s)",
        [schedule.id, noon],
    )
    async with house.listening():
        anna.say("/today")
        await house.wait(anna.read)
    assert anna.read()[0].splitlines() == [
        f"Today, {day.isoformat()}",
        "10:00-14:00  Anna Svensson  Storgatan 12, Göteborg",
        "",
        "Reminders:",
        "12:00  Rent: to come",
    ]


async def test_today_says_when_nothing_is_known_of_the_day(house: House) -> None:
    anna = house.telegram.person(42, "sv")
    async with house.listening():
        anna.say("/today")
        await house.wait(anna.read)
    assert anna.read()[0].splitlines()[1:] == ["Inget schema är känt för dagen."]
