"""Authentication by API key, and the access rules of routes.

As long as no API key was ever created, a request needs none if it comes from loopback, is addressed to loopback (a DNS
name that was pointed here does not count), did not pass a proxy, and was not sent by a web page of another origin. The
first key ends that for good: revoking the last key does not bring it back.
"""

import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Generic, TypeAlias, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from fastapi import Header, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from pydantic import Field, TypeAdapter, ValidationError

from duly.accounts import ApiKey
from duly.accounts.service import find_key_by_secret, find_person, has_keys
from duly.db.pool import Pool
from duly.errors import Forbidden, InvalidArgument, Unauthorized
from duly.jobs.model import DEFAULT_ORG

ADMIN = "admin"
READ = "ledger:read"
WRITE = "ledger:write"
PROXY_HEADERS = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
ON_BEHALF_HEADER = "Duly-User"
UID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$"
UID = TypeAdapter[str](Annotated[str, Field(pattern=UID_PATTERN)])
BEARER = HTTPBearer(
    scheme_name="key",
    bearerFormat="duly_",
    description="A key of `duly keys create`. None is needed on this machine as long as no key was ever created.",
    auto_error=False,  # only documents the header: the key is checked before the body is read
)

T = TypeVar("T")
OnBehalf: TypeAlias = Annotated[
    str | None,
    Header(alias=ON_BEHALF_HEADER, pattern=UID_PATTERN, description="The uid of the person an administrator acts for."),
]


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller: its name in logs and events, its org or person, and its scopes."""

    name: str
    org: UUID | None
    scopes: frozenset[str]
    uid: str | None = None  # the person, if the key belongs to one

    def has_scope(self, scope: str) -> bool:
        """Return whether the caller has a scope; an administrator has all of them."""
        return scope in self.scopes or ADMIN in self.scopes


@dataclass(frozen=True, slots=True)
class Tenant:
    """The org whose jobs a request is about, and the actor to record."""

    org: UUID
    actor: str


LOCAL_ADMIN = Caller("loopback", DEFAULT_ORG, frozenset({ADMIN}))


# Authentication -------------------------------------------------------------------------------------------------------


class Authenticator:
    """Finds the caller of a request by its API key."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.needs_key = False  # once true it stays true; that no key exists is never cached

    async def authenticate(self, request: Request) -> Caller:
        """Return the caller of a request; raises Unauthorized."""
        authorization = request.headers.get("authorization")
        if authorization is None:
            return await self.authenticate_local(request)
        scheme, _, secret = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthorized("the Authorization header is not a bearer token; send Authorization: Bearer duly_...")
        key = await find_key_by_secret(self.pool, secret.strip())
        if key is None:
            raise Unauthorized("API key unknown, revoked or expired; create one with: duly keys create")
        return caller_from_key(key)

    async def authenticate_local(self, request: Request) -> Caller:
        """Return the local administrator for a request without a key, as long as no key was ever created."""
        self.needs_key = self.needs_key or await has_keys(self.pool)
        if self.needs_key:
            raise Unauthorized("API key missing; send it as: Authorization: Bearer duly_...")
        if not is_local(request):
            raise Unauthorized(
                "API key missing: without a key only direct requests from this machine to localhost or 127.0.0.1 are "
                "served; create a key with: duly keys create"
            )
        return LOCAL_ADMIN


def caller_from_key(key: ApiKey) -> Caller:
    """Return the holder of a key, named by its prefix, which is not secret."""
    return Caller(f"key:{key.prefix}", key.org_id, frozenset(key.scopes), key.uid)


def is_local(request: Request) -> bool:
    """Return whether a request comes from this machine, is addressed to it, and passed no proxy or foreign web page."""
    host = request.headers.get("host", "")
    origin = request.headers.get("origin")
    return (
        request.client is not None
        and is_loopback(request.client.host)
        and is_loopback(parse_hostname(f"//{host}"))
        and (origin is None or urlsplit(origin).netloc == host)
        and not any(header in request.headers for header in PROXY_HEADERS)
    )


def parse_hostname(address: str) -> str:
    """Return the host of an address without its port, or an empty string when there is none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Return whether a host name or address means this machine, without resolving it."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower() == "localhost"
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


# Access rules ---------------------------------------------------------------------------------------------------------


class AccessRule(Generic[T]):
    """Decides whether a caller may use a route, and on whose data it then works.

    `GuardedRoute` applies it before it reads the body; as a dependency it only returns what was decided there.
    """

    def __init__(self, check: Callable[[Request], Awaitable[T]]) -> None:
        self.check = check

    async def authorize(self, request: Request) -> None:
        """Apply the rule to an authenticated request; raises Forbidden, RateLimited and what the rule raises."""
        request.state.access = await self.check(request)

    async def __call__(self, request: Request, _: Annotated[object, Security(BEARER)]) -> T:
        """Return what `authorize` found."""
        return request.state.access


class PersonAccessRule(AccessRule[T]):
    """An access rule for data of one person, whom an administrator names in the header Duly-User."""

    async def __call__(
        self,
        request: Request,
        _: Annotated[object, Security(BEARER)],
        on_behalf: OnBehalf = None,  # noqa: ARG002 (documents the header, which `authorize` has read)
    ) -> T:
        """Return what `authorize` found."""
        return request.state.access


def require_scope(caller: Caller, scope: str) -> None:
    """Raise Forbidden when the caller lacks a scope."""
    if not caller.has_scope(scope):
        raise Forbidden(
            f"the API key lacks the scope {scope}; create one that has it: duly keys create ... --scope {scope}"
        )


# Orgs -----------------------------------------------------------------------------------------------------------------


@AccessRule
async def jobs_reader(request: Request) -> Tenant:
    """Return the org whose jobs are read."""
    return require_tenant(request.state.caller, READ)


@AccessRule
async def jobs_writer(request: Request) -> Tenant:
    """Return the org whose jobs are created, cancelled or redriven."""
    return require_tenant(request.state.caller, WRITE)


def require_tenant(caller: Caller, scope: str) -> Tenant:
    """Return the org of a caller that has a scope; raises Forbidden."""
    require_scope(caller, scope)
    if caller.org is None:
        raise Forbidden(
            "the API key belongs to a person without an org, and jobs belong to orgs; create one for an org with: "
            f"duly keys create NAME --org ORG --scope {scope}"
        )
    return Tenant(caller.org, caller.name)


# People ---------------------------------------------------------------------------------------------------------------


def require_uid(request: Request, scope: str, data: str) -> str:
    """Return the person whose data (`data` names it in the error) a request is about; raises Forbidden."""
    require_scope(request.state.caller, scope)
    if uid := find_uid(request):
        return uid
    raise person_required(data, scope)


def person_required(data: str, scope: str) -> Forbidden:
    """Return the error for a key that belongs to no person."""
    return Forbidden(
        f"{data} belong to a person, and the API key belongs to none; create one with: duly keys create NAME --user "
        f"UID --scope {scope}; an administrator names the person in the header {ON_BEHALF_HEADER}"
    )


def find_uid(request: Request) -> str | None:
    """Return the person of the caller, or the one an administrator acts for."""
    caller: Caller = request.state.caller
    on_behalf = parse_on_behalf(request)
    if on_behalf is None:
        return caller.uid
    if on_behalf != caller.uid and ADMIN not in caller.scopes:
        raise Forbidden(f"the header {ON_BEHALF_HEADER} is for administrators: a person's key acts for that person")
    return on_behalf


async def find_known_uid(request: Request) -> str | None:
    """Return the person of a request like `find_uid`; raises InvalidArgument when the header names an unknown uid."""
    uid = find_uid(request)
    if uid is not None and uid != request.state.caller.uid and await find_person(request.state.pool, uid) is None:
        raise InvalidArgument(
            f"{ON_BEHALF_HEADER}: {uid}: no person has this uid; create them with: duly people create {uid}"
        )
    return uid


def parse_on_behalf(request: Request) -> str | None:
    """Return the uid in the header Duly-User; raises RequestValidationError when it is malformed."""
    value = request.headers.get(ON_BEHALF_HEADER)
    try:
        return None if value is None else UID.validate_python(value)
    except ValidationError as error:
        found = [{**each, "loc": ("header", ON_BEHALF_HEADER)} for each in error.errors()]
        raise RequestValidationError(found) from None
