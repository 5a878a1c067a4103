"""Who asks: whoever holds a key, or, as long as no key was ever made, whoever sits at this machine.

The first key puts a lock on the door, and the lock stays: revoking the last key opens nothing. Until then a request
needs no key if it comes from loopback, was addressed to loopback (a web page whose name was made to point here says its
own name), was not passed on by a proxy, and was not sent by a page of somebody else's.
"""

import ipaddress
from dataclasses import dataclass
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit
from uuid import UUID

from fastapi import Depends, Header, Request, Security
from fastapi.security import HTTPBearer

from duly.accounts import ApiKey
from duly.accounts.service import find_person, has_keys, identify
from duly.apps.posts.repository import ANYBODY
from duly.db.pool import Pool
from duly.errors import Forbidden, InvalidArgument, Unauthorized
from duly.jobs.model import DEFAULT_ORG

__all__ = [
    "Caller",
    "Keyring",
    "Tenant",
    "author_of_posts",
    "bringer_of_days",
    "is_loopback",
    "operator",
    "reader_of_days",
    "reader_of_jobs",
    "reader_of_posts",
    "reader_of_requests",
    "writer_of_jobs",
]

ADMIN = "admin"
READ = "ledger:read"
WRITE = "ledger:write"
PASSED_ON = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
BEARER = HTTPBearer(
    scheme_name="key",
    bearerFormat="duly_",
    description="A key of `duly keys create`. None is needed on this machine as long as no key was ever made.",
    auto_error=False,  # who asks is decided before the body is read; this is here to be documented
)


OnBehalf: TypeAlias = Annotated[
    str | None,
    Header(
        alias="Duly-User",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$",
        description="The uid of the person an administrator acts for.",
    ),
]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, for which org, and what they may do."""

    name: str
    org: UUID | None
    scopes: frozenset[str]
    uid: str | None = None  # the person, where the key is a person's

    def may(self, scope: str) -> bool:
        """An administrator may do everything."""
        return scope in self.scopes or ADMIN in self.scopes


@dataclass(frozen=True, slots=True)
class Tenant:
    """Whose jobs a request is about, and who is to be named for what it does."""

    org: UUID
    actor: str


NEIGHBOUR = Caller("loopback", DEFAULT_ORG, frozenset({ADMIN}))


class Keyring:
    """Knows callers by their keys."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.is_locked = False  # once true it stays so; that there is no key is never remembered

    async def caller_of(self, request: Request) -> Caller:
        """Who asks, or Unauthorized."""
        authorization = request.headers.get("authorization")
        if authorization is None:
            return await self.neighbour(request)
        scheme, _, secret = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthorized("send the key as: Authorization: Bearer duly_...")
        key = await identify(self.pool, secret.strip())
        if key is None:
            raise Unauthorized("this key is wrong, revoked or expired; make another with: duly keys create")
        return caller_with(key)

    async def neighbour(self, request: Request) -> Caller:
        """Whoever sits at this machine, if the door has no lock."""
        self.is_locked = self.is_locked or await has_keys(self.pool)
        if self.is_locked:
            raise Unauthorized("this needs a key, sent as: Authorization: Bearer duly_...")
        if not is_from_here(request):
            raise Unauthorized(
                "without a key only this machine is served, directly and under the name localhost or 127.0.0.1; "
                "make a key with: duly keys create"
            )
        return NEIGHBOUR


def caller_with(key: ApiKey) -> Caller:
    """The holder of a key goes by its prefix, which may be shown."""
    return Caller(f"key:{key.prefix}", key.org_id, frozenset(key.scopes), key.uid)


def is_from_here(request: Request) -> bool:
    """Was this sent on this machine, to this machine, and not for somebody elsewhere?"""
    host = request.headers.get("host", "")
    origin = request.headers.get("origin")
    return (
        request.client is not None
        and is_loopback(request.client.host)
        and is_loopback(name_in(f"//{host}"))
        and (origin is None or urlsplit(origin).netloc == host)
        and not any(header in request.headers for header in PASSED_ON)
    )


def name_in(address: str) -> str:
    """The host of an address, without its port; nothing when it is none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Does this name, or this address, mean the machine itself, without asking anybody?"""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower() == "localhost"
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


async def reader_of_jobs(request: Request, _: Annotated[object, Security(BEARER)]) -> Tenant:
    """Whose jobs are looked at; Forbidden when this caller may not look."""
    return tenant_of(request.state.caller, READ)


async def writer_of_jobs(request: Request, _: Annotated[object, Security(BEARER)]) -> Tenant:
    """Whose jobs are made or steered; Forbidden when this caller may not."""
    return tenant_of(request.state.caller, WRITE)


def tenant_of(caller: Caller, scope: str) -> Tenant:
    """The org of a caller that may do this."""
    refuse_without(caller, scope)
    if caller.org is None:
        raise Forbidden(
            "this key belongs to a person and to no org, and jobs belong to orgs; make one for an org with: "
            f"duly keys create NAME --org ORG --scope {scope}"
        )
    return Tenant(caller.org, caller.name)


def refuse_without(caller: Caller, scope: str) -> None:
    """Forbidden when the caller lacks a scope."""
    if not caller.may(scope):
        raise Forbidden(f"this key lacks the scope {scope}; make one that has it: duly keys create ... --scope {scope}")


# People ---------------------------------------------------------------------------------------------------------------


async def reader_of_posts(
    request: Request, _: Annotated[object, Security(BEARER)], on_behalf: OnBehalf = None
) -> str | None:
    """Whose eyes a post is looked at with: the person's of the key; without one only what everybody sees."""
    caller: Caller = request.state.caller
    refuse_without(caller, "posts:read")
    return await known_person_of(request, on_behalf)


async def reader_of_requests(request: Request, viewer: Annotated[str | None, Depends(reader_of_posts)]) -> str | None:
    """Whose requests and leases of posts are shown: the person's own, and to an administrator everybody's."""
    return ANYBODY if ADMIN in request.state.caller.scopes else viewer


async def author_of_posts(request: Request, _: Annotated[object, Security(BEARER)], on_behalf: OnBehalf = None) -> str:
    """Who posts; Forbidden when this caller may not, or is nobody in particular."""
    caller: Caller = request.state.caller
    refuse_without(caller, "posts:write")
    if uid := await known_person_of(request, on_behalf):
        return uid
    raise Forbidden(
        "posts belong to people, and this key to none: make one with duly keys create NAME --user UID --scope "
        "posts:write; an administrator says for whom in the header Duly-User"
    )


async def reader_of_days(request: Request, _: Annotated[object, Security(BEARER)], on_behalf: OnBehalf = None) -> str:
    """Whose sessions and days are looked at; Forbidden when this caller may not, or is nobody in particular."""
    return owner_of_days(request.state.caller, "ingest:read", on_behalf)


async def bringer_of_days(request: Request, _: Annotated[object, Security(BEARER)], on_behalf: OnBehalf = None) -> str:
    """Who brings sessions and images; Forbidden when this caller may not, or is nobody in particular."""
    return owner_of_days(request.state.caller, "ingest:write", on_behalf)


def owner_of_days(caller: Caller, scope: str, on_behalf: str | None) -> str:
    """The person that a caller is, or acts for."""
    refuse_without(caller, scope)
    if uid := person_of(caller, on_behalf):
        return uid
    raise Forbidden(
        f"days belong to people, and this key to none: make one with duly keys create NAME --user UID --scope {scope}; "
        "an administrator says for whom in the header Duly-User"
    )


def person_of(caller: Caller, on_behalf: str | None) -> str | None:
    """The person of a caller; an administrator may act for anybody."""
    if on_behalf is None:
        return caller.uid
    if on_behalf != caller.uid and ADMIN not in caller.scopes:
        raise Forbidden("the header Duly-User is for administrators: a person's key is for that person")
    return on_behalf


async def known_person_of(request: Request, on_behalf: str | None) -> str | None:
    """The person of a caller; InvalidArgument when the header names nobody there is."""
    caller: Caller = request.state.caller
    uid = person_of(caller, on_behalf)
    if on_behalf is not None and on_behalf != caller.uid and await find_person(request.state.pool, on_behalf) is None:
        raise InvalidArgument(
            f"Duly-User: {on_behalf}: there is no person with this uid; create them with: duly users create {on_behalf}"
        )
    return uid


async def operator(request: Request, _: Annotated[object, Security(BEARER)]) -> Caller:
    """Who looks after the house; Forbidden to others."""
    caller: Caller = request.state.caller
    refuse_without(caller, "posts:read")
    return caller
