"""The contract's sample schedule, created once.

Its first run is this month's, as in the contract; the planner creates it and the reminder follows.
"""

from datetime import UTC, datetime

from duly.apps.scheduler import repository, service
from duly.apps.scheduler.model import NewSchedule, Schedule
from duly.db.pool import Pool
from duly.errors import KeyReused
from duly.outcomes import Creation, Existing

SAMPLE_UID = "sample"
SAMPLE_KEY = "seed"
SAMPLE_NAME = "YouTube 订阅"
SAMPLE_RULE = "cron: 0 10 1 * *"


async def seed(pool: Pool, user_id: int, now: datetime) -> Creation[Schedule]:
    """Return the sample schedule of this user, created if it does not exist; later changes to it are kept."""
    if found := await find_sample(pool, user_id):
        return Existing(found)
    month = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    try:
        return await service.create_schedule(pool, user_id, NewSchedule(SAMPLE_NAME, SAMPLE_RULE, month), SAMPLE_KEY)
    except KeyReused:  # created concurrently, in another month
        found = await find_sample(pool, user_id)
        assert found, "the sample has the key"
        return Existing(found)


async def find_sample(pool: Pool, user_id: int) -> Schedule | None:
    """Return the sample schedule, if it exists."""
    async with pool.transaction() as connection:
        row = await repository.find_by_idempotency_key(connection, user_id, SAMPLE_KEY)
        return await repository.find_schedule(connection, user_id, row["id"]) if row else None
