"""Orgs, users and API keys in a real database."""

import asyncio
from collections.abc import AsyncGenerator

import psycopg
import pytest

from duly.accounts import SCOPES, service
from duly.accounts.model import new_secret, parse_key_prefix
from duly.db.migrations import Names
from duly.db.pool import Pool, open_pool
from duly.errors import Conflict, InvalidArgument, NotFound
from duly.outcomes import Created, Existing


@pytest.fixture
async def owner_pool(database: str) -> AsyncGenerator[Pool, None]:
    """The service's pool with the rights of the owner, as administrators have."""
    async with open_pool(database, size=2, role=Names().owner) as pool:
        yield pool


@pytest.fixture
async def api_pool(database: str) -> AsyncGenerator[Pool, None]:
    """A pool with the rights of the HTTP API."""
    async with open_pool(database, size=2, role=Names().api) as pool:
        yield pool


async def test_creating_an_org_twice_returns_the_existing_one(owner_pool: Pool) -> None:
    first = await service.create_org(owner_pool, "acme")
    second = await service.create_org(owner_pool, "acme")
    assert isinstance(first, Created)
    assert isinstance(second, Existing)
    assert first.row == second.row
    assert [org.name for org in await service.list_orgs(owner_pool)] == ["acme"]


async def test_lists_are_complete_over_many_pages(owner_pool: Pool, database: str) -> None:
    row_count = 2001
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("insert into duly.orgs (name) select 'org ' || n from generate_series(1, %s) as n", [row_count])
        admin.execute("insert into duly.person (uid) select 'u' || n from generate_series(1, %s) as n", [row_count])
        admin.execute(
            "insert into duly.api_keys (name, prefix, secret_sha256, scopes, org_id)"
            " select 'key ' || n, 'duly_' || lpad(n::text, 12, '0'), sha256(n::text::bytea), '{jobs:read}', o.id"
            " from generate_series(1, %s) as n, duly.orgs as o where o.name = 'org 1'",
            [row_count],
        )
    for rows in (
        await service.list_orgs(owner_pool),
        await service.list_people(owner_pool),
        await service.list_keys(owner_pool),
    ):
        assert (len(rows), len({row.id for row in rows})) == (row_count, row_count)


@pytest.mark.parametrize("name", ["", " acme", "acme ", "a" * 201])
async def test_invalid_org_name_is_refused_with_the_rule(name: str, owner_pool: Pool) -> None:
    with pytest.raises(InvalidArgument, match="1 to 200 characters"):
        await service.create_org(owner_pool, name)


async def test_creating_a_user_again_is_idempotent_and_other_values_conflict(owner_pool: Pool) -> None:
    first = await service.create_person(owner_pool, "anna", telegram_id=7, zone="Europe/Stockholm", language="sv")
    again = await service.create_person(owner_pool, "anna", telegram_id=7, zone="Europe/Stockholm", language="sv")
    assert isinstance(again, Existing)
    assert again.row == first.row
    with pytest.raises(Conflict, match="a person with other values"):
        await service.create_person(owner_pool, "anna", telegram_id=8)
    with pytest.raises(Conflict, match="Telegram id"):
        await service.create_person(owner_pool, "ben", telegram_id=7)


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("zone", "Mars/Olympus", "IANA"),
        ("zone", "+02", "IANA"),
        ("zone", "", "IANA"),
        ("language", "swedish", "code such as"),
        ("currency", "kr", "code such as"),
    ],
)
async def test_invalid_user_field_is_refused_with_the_rule(field: str, value: str, rule: str, owner_pool: Pool) -> None:
    with pytest.raises(InvalidArgument, match=rule):
        await service.create_person(owner_pool, "anna", **{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("uid", ["", "two words", "tab\t", "-dash", "a" * 129, "slash/"])
async def test_a_uid_that_would_make_keys_ambiguous_is_refused(uid: str, owner_pool: Pool) -> None:
    with pytest.raises(InvalidArgument, match="uid"):
        await service.create_person(owner_pool, uid)


async def test_a_key_is_valid_until_it_is_revoked(owner_pool: Pool, api_pool: Pool) -> None:
    await service.create_org(owner_pool, "acme")
    made = await service.create_key(owner_pool, "ci", ["ledger:write", "ledger:read"], org="acme")
    assert await service.find_key_by_secret(api_pool, made.secret) == made.key
    assert made.key.scopes == ["ledger:read", "ledger:write"]
    first = await service.revoke_key(owner_pool, made.key.prefix)
    assert await service.find_key_by_secret(api_pool, made.secret) is None
    assert await service.revoke_key(owner_pool, made.key.prefix) == first


async def test_revoking_an_org_or_a_user_revokes_all_their_keys_and_no_others(owner_pool: Pool) -> None:
    for name in ("acme", "other"):
        await service.create_org(owner_pool, name)
    await service.create_person(owner_pool, "anna")
    theirs = [await service.create_key(owner_pool, f"k{n}", ["admin"], org="acme") for n in range(2)]
    annas = await service.create_key(owner_pool, "annas", ["admin"], uid="anna")
    foreign = await service.create_key(owner_pool, "foreign", ["admin"], org="other")
    revoked = await service.revoke_org_keys(owner_pool, "acme")
    assert {key.prefix for key in revoked} == {made.key.prefix for made in theirs}
    assert [key.prefix for key in await service.revoke_person_keys(owner_pool, "anna")] == [annas.key.prefix]
    assert await service.find_key_by_secret(owner_pool, foreign.secret)
    assert await service.revoke_org_keys(owner_pool, "acme") == []


async def test_a_key_expires_by_the_clock_of_the_database(owner_pool: Pool, database: str) -> None:
    await service.create_org(owner_pool, "acme")
    made = await service.create_key(owner_pool, "short", ["admin"], org="acme", lifetime_seconds=3600)
    assert await service.find_key_by_secret(owner_pool, made.secret)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "create or replace function duly.clock() returns timestamptz language sql volatile parallel safe"
            " return clock_timestamp() + interval '2 hours'"
        )
    assert await service.find_key_by_secret(owner_pool, made.secret) is None


async def test_only_the_exact_secret_is_accepted(owner_pool: Pool) -> None:
    await service.create_org(owner_pool, "acme")
    made = await service.create_key(owner_pool, "ci", ["admin"], org="acme")
    last = "A" if made.secret[-1] != "A" else "B"
    for attempt in (
        made.secret[:-1] + last,
        made.key.prefix,
        made.secret + "x",
        "",
        "Bearer " + made.secret,
        new_secret(),
    ):
        assert await service.find_key_by_secret(owner_pool, attempt) is None


async def test_database_stores_no_usable_key(owner_pool: Pool, database: str) -> None:
    await service.create_org(owner_pool, "acme")
    made = await service.create_key(owner_pool, "ci", ["admin"], org="acme")
    with psycopg.connect(database) as connection:
        row = str(connection.execute("select * from duly.api_keys").fetchall())
    assert made.secret.removeprefix(f"{made.key.prefix}_") not in row


async def test_only_the_api_can_read_the_hash(database: str) -> None:
    roles = Names()
    with psycopg.connect(database, autocommit=True) as connection:
        for role, is_allowed in ((roles.api, True), (roles.worker, False), (roles.readonly, False)):
            query = "select has_column_privilege(%s, 'duly.api_keys', 'secret_sha256', 'select')"
            assert connection.execute(query, [role]).fetchone() == (is_allowed,)


@pytest.mark.parametrize("scopes", [[], ["jobs"], ["ledger:write", "Admin"]])
async def test_unknown_scopes_are_refused_with_the_list_of_scopes(scopes: list[str], owner_pool: Pool) -> None:
    with pytest.raises(InvalidArgument) as error:
        await service.create_key(owner_pool, "ci", scopes, org="acme")
    assert all(scope in str(error.value) for scope in SCOPES)


async def test_a_key_needs_an_existing_owner(owner_pool: Pool) -> None:
    with pytest.raises(InvalidArgument, match="--org or --user"):
        await service.create_key(owner_pool, "ci", ["admin"])
    with pytest.raises(NotFound, match="duly orgs create"):
        await service.create_key(owner_pool, "ci", ["admin"], org="unknown")
    with pytest.raises(NotFound, match="duly people create"):
        await service.create_key(owner_pool, "ci", ["admin"], uid="unknown")
    with pytest.raises(NotFound, match="duly keys list"):
        await service.revoke_key(owner_pool, "duly_nothing")


def test_a_secret_carries_256_random_bits_and_its_prefix() -> None:
    secrets = [new_secret() for _ in range(100)]
    assert len(set(secrets)) == 100
    for secret in secrets:
        assert len(secret.rsplit("_", 1)[0]) >= len("duly_") + 12
        assert parse_key_prefix(secret)
    assert parse_key_prefix("duly_short_x") is None


async def test_concurrent_registrations_of_a_telegram_id_create_one_user(api_pool: Pool) -> None:
    created = await asyncio.gather(*(service.register_telegram_person(api_pool, 42, "sv") for _ in range(10)))
    assert [isinstance(each, Created) for each in created].count(True) == 1
    assert {(each.row.uid, each.row.telegram_id, each.row.language) for each in created} == {("telegram:42", 42, "sv")}


async def test_a_telegram_id_is_linked_to_one_user_and_a_user_has_one(api_pool: Pool, owner_pool: Pool) -> None:
    anna, ben = [(await service.create_person(owner_pool, uid)).row for uid in ("anna", "ben")]
    for _ in range(2):
        assert (await service.link_telegram(api_pool, anna.id, 42)).uid == "anna"
    with pytest.raises(Conflict, match="belongs to another person"):
        await service.link_telegram(api_pool, ben.id, 42)
    with pytest.raises(Conflict, match="works once"):
        await service.link_telegram(api_pool, anna.id, 43)
    with pytest.raises(Conflict, match="or was deleted"):
        await service.link_telegram(api_pool, 2**62, 44)
    assert (await service.unlink_telegram(owner_pool, "anna")).telegram_id is None
    assert (await service.link_telegram(api_pool, ben.id, 42)).uid == "ben"


async def test_unlinked_user_registers_again_as_the_same_user(api_pool: Pool, owner_pool: Pool) -> None:
    first = (await service.register_telegram_person(api_pool, 42, "en")).row
    await service.unlink_telegram(owner_pool, "telegram:42")
    assert (await service.register_telegram_person(api_pool, 42, "en")).row.id == first.id


@pytest.mark.parametrize(
    "statement", ["insert into duly.person (uid) values ('eve')", "update duly.person set uid = 1"]
)
async def test_api_role_writes_users_only_through_functions(statement: str, api_pool: Pool) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        async with api_pool.transaction() as connection:
            await connection.execute(statement.encode())


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\tb", "a\x1b[2Jb", "a\x7fb", "a\x85b", "a\u2028b"])
async def test_key_and_org_names_with_control_characters_are_refused(name: str, owner_pool: Pool) -> None:
    await service.create_org(owner_pool, "acme")
    with pytest.raises(InvalidArgument, match="without control characters"):
        await service.create_key(owner_pool, name, ["admin"], org="acme")
    with pytest.raises(InvalidArgument, match="without control characters"):
        await service.create_org(owner_pool, name)
