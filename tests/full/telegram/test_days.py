"""The commands /today and /upcoming."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from psycopg.types.json import Jsonb

from tests.support.telegram.environment import BotTestEnvironment

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


async def test_upcoming_lists_open_runs_and_next_firings_in_the_users_time_zone(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    await env.remind(anna)
    async with env.listening():
        anna.send_text("/upcoming")
        await env.wait(lambda: len(anna.texts()) == 2)
    assert anna.texts()[1].splitlines() == [
        "What is coming:",
        "2026-11-16 11:00  Rent: waits for your answer",
        "2026-11-17 11:00  Rent: to come",
    ]


async def test_upcoming_says_when_nothing_is_coming(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42, "zh")
    async with env.listening():
        anna.send_text("/upcoming")
        await env.wait(anna.texts)
    assert anna.texts() == ["没有即将到期的事项。"]


@pytest.mark.breaks_invariants  # a day without its events
async def test_today_shows_the_shifts_and_reminders_of_the_day_in_the_users_time_zone(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42)
    env.schedules.add_user("anna", telegram_id=42, zone=FAR)
    env.schedules.set_clock("2031-11-16T12:00:00+00:00")
    day = date(2031, 11, 17)  # over there, by the clock of the database
    env.schedules.admin.execute(DAY.encode(), [day, Jsonb([SHIFT])])
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=ZoneInfo(FAR))
    schedule = await env.schedules.create(first_run_at=datetime(2025, 1, 1, tzinfo=UTC))
    env.schedules.admin.execute(
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at) values (%s, 'today', %s)",
        [schedule.id, noon],
    )
    async with env.listening():
        anna.send_text("/today")
        await env.wait(anna.texts)
    assert anna.texts()[0].splitlines() == [
        f"Today, {day.isoformat()}",
        "10:00-14:00  Anna Svensson  Storgatan 12, Göteborg",
        "",
        "Reminders:",
        "12:00  Rent: to come",
    ]


async def test_today_says_when_no_schedule_is_known_for_the_day(env: BotTestEnvironment) -> None:
    anna = env.telegram.person(42, "sv")
    async with env.listening():
        anna.send_text("/today")
        await env.wait(anna.texts)
    assert anna.texts()[0].splitlines()[1:] == ["Inget schema är känt för dagen."]
