"""The people that a command names by uid."""

from duly.accounts import service
from duly.db.pool import Pool
from duly.errors import InvalidArgument, NotFound

MAX_TELEGRAM_ID = 2**63 - 1


async def find_owner_id(pool: Pool, uid: str | None) -> int | None:
    """Return the user_id of the schedules that are requested; None means the schedules of all people."""
    return None if uid is None else (await service.require_person(pool, uid)).schedule_owner_id


async def find_telegram_id(pool: Pool, uid_or_id: str) -> int:
    """Return the Telegram id that owns a person's days: that of a known uid, or else the number itself."""
    person = await service.find_person(pool, uid_or_id)
    if person and person.telegram_id is None:
        raise InvalidArgument(
            f"days are kept under a Telegram id, and {uid_or_id} has none; set one with: "
            f"duly people set {uid_or_id} --telegram-id N"
        )
    if person and person.telegram_id is not None:
        return person.telegram_id
    if uid_or_id.isascii() and uid_or_id.isdecimal() and 0 < int(uid_or_id[:20]) <= MAX_TELEGRAM_ID:
        return int(uid_or_id)
    raise NotFound(
        f"{uid_or_id[:200]!a} is neither the uid of a person nor a Telegram id; see: duly people list, or create "
        "one with: duly people create"
    )
