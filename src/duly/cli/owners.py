"""The users that a command names by uid."""

from duly.accounts import User, service
from duly.db.pool import Pool
from duly.errors import InvalidArgument, NotFound

MAX_TELEGRAM_ID = 2**63 - 1


async def find_user(pool: Pool, uid: str) -> User | None:
    """Return the user with this uid; None if there is none, or the text cannot be a uid."""
    return await service.find_user(pool, uid) if uid.isascii() and "\0" not in uid else None


async def get_user(pool: Pool, uid: str) -> User:
    """Return the user with this uid, or raise NotFound."""
    user = await find_user(pool, uid)
    if user is None:
        raise NotFound(
            f"there is no user with the uid {uid[:200]!a}; see: duly users list, or create one with: duly users create"
        )
    return user


async def find_owner_id(pool: Pool, uid: str | None) -> int | None:
    """Return the id of the user whose rows are requested; None means the rows of all users."""
    return None if uid is None else (await get_user(pool, uid)).id


async def find_telegram_id(pool: Pool, uid_or_id: str) -> int:
    """Return the Telegram id that owns a user's days: that of a known uid, or else the number itself."""
    user = await find_user(pool, uid_or_id)
    if user and user.telegram_id is None:
        raise InvalidArgument(
            f"days are kept under a Telegram id, and {uid_or_id} has none; set one with: "
            f"duly users set {uid_or_id} --telegram-id N"
        )
    if user and user.telegram_id is not None:
        return user.telegram_id
    if uid_or_id.isascii() and uid_or_id.isdecimal() and 0 < int(uid_or_id[:20]) <= MAX_TELEGRAM_ID:
        return int(uid_or_id)
    raise NotFound(
        f"{uid_or_id[:200]!a} is neither the uid of a user nor a Telegram id; see: duly users list, or create "
        "one with: duly users create"
    )
