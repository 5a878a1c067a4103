"""Whom a command is about: people, by their uids."""

from duly.db.pool import Pool
from duly.errors import NotFound
from duly.people import User, service

__all__ = ["find_person", "get_person", "owner_of"]


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
