"""Whom a command is about: people, by their uids."""

from duly.accounts import User, service
from duly.db.pool import Pool
from duly.errors import InvalidArgument, NotFound

__all__ = ["find_person", "get_person", "owner_of", "telegram_id_of"]

MAX_TELEGRAM_ID = 2**63 - 1


async def find_person(pool: Pool, uid: str) -> User | None:
    """The person of what was typed; None when it is nobody's uid, or cannot be one."""
    return await service.find_person(pool, uid) if uid.isascii() and "\0" not in uid else None


async def get_person(pool: Pool, uid: str) -> User:
    """The person of a uid, or NotFound."""
    person = await find_person(pool, uid)
    if person is None:
        raise NotFound(
            f"there is no person with the uid {uid[:200]!a}; see: duly users list, or make them with: duly users create"
        )
    return person


async def owner_of(pool: Pool, uid: str | None) -> int | None:
    """Whose things are asked for; None: everybody's."""
    return None if uid is None else (await get_person(pool, uid)).id


async def telegram_id_of(pool: Pool, user: str) -> int:
    """The number under which a person's days are kept: the one of a uid that we know, or else the number itself."""
    person = await find_person(pool, user)
    if person and person.telegram_id is None:
        raise InvalidArgument(
            f"days are kept under a Telegram id, and {user} has none; give them one with: duly users set {user} "
            "--telegram-id N"
        )
    if person and person.telegram_id is not None:
        return person.telegram_id
    if user.isascii() and user.isdecimal() and 0 < int(user[:20]) <= MAX_TELEGRAM_ID:
        return int(user)
    raise NotFound(
        f"{user[:200]!a} is neither the uid of a person nor a Telegram id; see: duly users list, or make them with: "
        "duly users create"
    )
