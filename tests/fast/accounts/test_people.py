"""Orgs, people and keys on a real database."""

import asyncio
from collections.abc import AsyncGenerator

import psycopg
import pytest

from duly.accounts import SCOPES, service
from duly.accounts.model import new_secret, prefix_of
from duly.db.migrations import Names
from duly.db.pool import Pool, open_pool
from duly.errors import Conflict, InvalidArgument, NotFound
from duly.outcomes import Created, Existing


@pytest.fixture
async def people(database: str) -> AsyncGenerator[Pool, None]:
    """The service's pool, as the owner: the administrator's door."""
    async with open_pool(database, size=2, role=Names().owner) as pool:
        yield pool


@pytest.fixture
async def as_api(database: str) -> AsyncGenerator[Pool, None]:
    """A pool as the HTTP API has it."""
    async with open_pool(database, size=2, role=Names().api) as pool:
        yield pool


async def test_making_an_org_twice_is_making_it_once_and_says_so(people: Pool) -> None:
    first = await service.create_org(people, "acme")
    second = await service.create_org(people, "acme")
    assert isinstance(first, Created)
    assert isinstance(second, Existing)
    assert first.row == second.row
    assert [org.name for org in await service.list_orgs(people)] == ["acme"]


async def test_a_list_is_whole_however_long(people: Pool, database: str) -> None:
    many = 2001
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("insert into duly.orgs (name) select 'org ' || n from generate_series(1, %s) as n", [many])
        admin.execute("insert into \"user\".users (uid) select 'u' || n from generate_series(1, %s) as n", [many])
        admin.execute(
            "insert into duly.api_keys (name, prefix, secret_sha256, scopes, org_id)"
            " select 'key ' || n, 'duly_' || lpad(n::text, 12, '0'), sha256(n::text::bytea), '{jobs:read}', o.id"
            " from generate_series(1, %s) as n, duly.orgs as o where o.name = 'org 1'",
            [many],
        )
    for whole in (await service.list_orgs(people), await service.list_users(people), await service.list_keys(people)):
        assert (len(whole), len({row.id for row in whole})) == (many, many)


@pytest.mark.parametrize("name", ["", " acme", "acme ", "a" * 201])
async def test_a_name_that_breaks_the_rule_is_refused_with_the_rule(name: str, people: Pool) -> None:
    with pytest.raises(InvalidArgument, match="1 to 200 characters"):
        await service.create_org(people, name)


async def test_the_same_person_again_is_no_error_another_under_that_uid_is(people: Pool) -> None:
    first = await service.create_user(people, "anna", telegram_id=7, zone="Europe/Stockholm", language="sv")
    again = await service.create_user(people, "anna", telegram_id=7, zone="Europe/Stockholm", language="sv")
    assert isinstance(again, Existing)
    assert again.row == first.row
    with pytest.raises(Conflict, match="described otherwise"):
        await service.create_user(people, "anna", telegram_id=8)
    with pytest.raises(Conflict, match="Telegram id"):
        await service.create_user(people, "ben", telegram_id=7)


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
async def test_a_description_that_breaks_a_rule_is_refused(field: str, value: str, rule: str, people: Pool) -> None:
    with pytest.raises(InvalidArgument, match=rule):
        await service.create_user(people, "anna", **{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("uid", ["", "two words", "tab\t", "-dash", "a" * 129, "slash/"])
async def test_a_uid_that_would_make_keys_ambiguous_is_refused(uid: str, people: Pool) -> None:
    with pytest.raises(InvalidArgument, match="uid"):
        await service.create_user(people, uid)


async def test_a_key_opens_the_door_until_it_is_revoked(people: Pool, as_api: Pool) -> None:
    await service.create_org(people, "acme")
    made = await service.create_key(people, "ci", ["ledger:write", "ledger:read"], org="acme")
    assert await service.identify(as_api, made.secret) == made.key
    assert made.key.scopes == ["ledger:read", "ledger:write"]
    first = await service.revoke_key(people, made.key.prefix)
    assert await service.identify(as_api, made.secret) is None
    assert await service.revoke_key(people, made.key.prefix) == first


async def test_revoking_an_org_or_a_person_ends_all_their_keys_and_nobody_elses(people: Pool) -> None:
    for name in ("acme", "other"):
        await service.create_org(people, name)
    await service.create_user(people, "anna")
    theirs = [await service.create_key(people, f"k{n}", ["admin"], org="acme") for n in range(2)]
    annas = await service.create_key(people, "annas", ["admin"], uid="anna")
    foreign = await service.create_key(people, "foreign", ["admin"], org="other")
    revoked = await service.revoke_keys_of_org(people, "acme")
    assert {key.prefix for key in revoked} == {made.key.prefix for made in theirs}
    assert [key.prefix for key in await service.revoke_keys_of_user(people, "anna")] == [annas.key.prefix]
    assert await service.identify(people, foreign.secret)
    assert await service.revoke_keys_of_org(people, "acme") == []


async def test_a_key_expires_by_the_clock_of_the_database(people: Pool, database: str) -> None:
    await service.create_org(people, "acme")
    made = await service.create_key(people, "short", ["admin"], org="acme", lifetime_seconds=3600)
    assert await service.identify(people, made.secret)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "create or replace function duly.clock() returns timestamptz language sql volatile parallel safe"
            " return clock_timestamp() + interval '2 hours'"
        )
    assert await service.identify(people, made.secret) is None


async def test_nothing_but_the_exact_secret_opens_the_door(people: Pool) -> None:
    await service.create_org(people, "acme")
    made = await service.create_key(people, "ci", ["admin"], org="acme")
    last = "A" if made.secret[-1] != "A" else "B"
    for attempt in (
        made.secret[:-1] + last,
        made.key.prefix,
        made.secret + "x",
        "",
        "Bearer " + made.secret,
        new_secret(),
    ):
        assert await service.identify(people, attempt) is None


async def test_a_dump_of_the_database_holds_no_usable_key(people: Pool, database: str) -> None:
    await service.create_org(people, "acme")
    made = await service.create_key(people, "ci", ["admin"], org="acme")
    with psycopg.connect(database) as connection:
        row = str(connection.execute("select * from duly.api_keys").fetchall())
    assert made.secret.removeprefix(f"{made.key.prefix}_") not in row


async def test_only_the_api_can_read_the_hash(database: str) -> None:
    roles = Names()
    with psycopg.connect(database, autocommit=True) as connection:
        for role, may in ((roles.api, True), (roles.worker, False), (roles.readonly, False)):
            asked = "select has_column_privilege(%s, 'duly.api_keys', 'secret_sha256', 'select')"
            assert connection.execute(asked, [role]).fetchone() == (may,)


@pytest.mark.parametrize("scopes", [[], ["jobs"], ["ledger:write", "Admin"]])
async def test_scopes_that_do_not_exist_are_refused_with_those_that_do(scopes: list[str], people: Pool) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        await service.create_key(people, "ci", scopes, org="acme")
    assert all(scope in str(refusal.value) for scope in SCOPES)


async def test_a_key_belongs_to_somebody_who_exists(people: Pool) -> None:
    with pytest.raises(InvalidArgument, match="--org or --user"):
        await service.create_key(people, "ci", ["admin"])
    with pytest.raises(NotFound, match="duly orgs create"):
        await service.create_key(people, "ci", ["admin"], org="nobody")
    with pytest.raises(NotFound, match="duly users create"):
        await service.create_key(people, "ci", ["admin"], uid="nobody")
    with pytest.raises(NotFound, match="duly keys list"):
        await service.revoke_key(people, "duly_nothing")


def test_a_secret_carries_256_random_bits_and_its_prefix() -> None:
    secrets = [new_secret() for _ in range(100)]
    assert len(set(secrets)) == 100
    for secret in secrets:
        assert len(secret.rsplit("_", 1)[0]) >= len("duly_") + 12
        assert prefix_of(secret)
    assert prefix_of("duly_short_x") is None


async def test_who_writes_to_the_bot_becomes_a_person_once_though_many_say_so_at_once(as_api: Pool) -> None:
    met = await asyncio.gather(*(service.meet_telegram(as_api, 42, "sv") for _ in range(10)))
    assert [isinstance(each, Created) for each in met].count(True) == 1
    assert {(each.row.uid, each.row.telegram_id, each.row.language) for each in met} == {("telegram:42", 42, "sv")}


async def test_a_link_binds_who_has_no_telegram_id_and_one_id_is_one_person(as_api: Pool, people: Pool) -> None:
    anna, ben = [(await service.create_user(people, uid)).row for uid in ("anna", "ben")]
    for _ in range(2):
        assert (await service.link_telegram(as_api, anna.id, 42)).uid == "anna"
    with pytest.raises(Conflict, match="belongs to another person"):
        await service.link_telegram(as_api, ben.id, 42)
    with pytest.raises(Conflict, match="works once"):
        await service.link_telegram(as_api, anna.id, 43)
    with pytest.raises(Conflict, match="or is gone"):
        await service.link_telegram(as_api, 2**62, 44)
    assert (await service.unlink_telegram(people, "anna")).telegram_id is None
    assert (await service.link_telegram(as_api, ben.id, 42)).uid == "ben"


async def test_whose_telegram_id_was_taken_off_them_comes_back_as_the_same_person(as_api: Pool, people: Pool) -> None:
    first = (await service.meet_telegram(as_api, 42, "en")).row
    await service.unlink_telegram(people, "telegram:42")
    assert (await service.meet_telegram(as_api, 42, "en")).row.id == first.id


@pytest.mark.parametrize(
    "statement", ["insert into \"user\".users (uid) values ('eve')", 'update "user".users set uid = 1']
)
async def test_the_bot_writes_people_by_these_functions_alone(statement: str, as_api: Pool) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        async with as_api.transaction() as connection:
            await connection.execute(statement.encode())


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\tb", "a\x1b[2Jb", "a\x7fb", "a\x85b", "a\u2028b"])
async def test_a_name_of_a_key_or_an_org_holds_no_control_character(name: str, people: Pool) -> None:
    await service.create_org(people, "acme")
    with pytest.raises(InvalidArgument, match="without control characters"):
        await service.create_key(people, name, ["admin"], org="acme")
    with pytest.raises(InvalidArgument, match="without control characters"):
        await service.create_org(people, name)
