"""The command /today: a cancelled shift is marked as cancelled, in the person's language."""

from datetime import date

import pytest
from psycopg.types.json import Jsonb

from duly.apps.ingest.shift import shift_from_entry
from tests.support.telegram.environment import BotTestEnvironment

ADDRESS = "Storgatan 12, Göteborg"
ENTRIES = (
    {"start": "08:00", "end": "10:00", "title": "Bo Berg • Städning", "address": ADDRESS},
    {"start": "10:00", "end": "14:00", "title": "Avbokad Anna Svensson • Städning", "address": ADDRESS},
    {"start": "15:00", "end": "16:00", "title": "Inställd"},
)
DAY = """
with session as (
    insert into schedule_ingest.capture_session (user_id) values (42) returning id
)
insert into schedule_ingest.day_snapshot
    (user_id, schedule_date, snapshot_payload, source_session_id)
select 42, %s, %s, id from session
"""


@pytest.mark.breaks_invariants  # a day without its events
@pytest.mark.parametrize(("language", "cancelled_text"), [("en", "cancelled"), ("sv", "avbokat"), ("zh", "已取消")])
async def test_a_cancelled_shift_is_shown_as_cancelled(
    env: BotTestEnvironment, language: str, cancelled_text: str
) -> None:
    anna = env.telegram.person(42, language)
    env.schedules.add_user("anna", telegram_id=42, language=language)
    env.schedules.set_clock("2031-11-16T12:00:00+00:00")
    shifts = [shift_from_entry(entry).document for entry in ENTRIES]
    env.schedules.admin.execute(DAY.encode(), [date(2031, 11, 16), Jsonb(shifts)])
    async with env.listening():
        anna.send_text("/today")
        await env.wait(anna.texts)
    assert anna.texts()[0].splitlines()[1:4] == [
        "08:00-10:00  Bo Berg  Storgatan 12, Göteborg",
        f"10:00-14:00  {cancelled_text}  Anna Svensson  Storgatan 12, Göteborg",
        f"15:00-16:00  {cancelled_text}",
    ]
