"""What an address says when we connect: our patience, our name and our wish for a host that takes writes."""

import pytest
from psycopg.conninfo import conninfo_to_dict

from duly.db.pool import KEEPALIVE, with_keepalive

ONE = "postgresql://anna@db.example/shop"
SEVERAL = "postgresql://anna@one.example:5432,two.example:5433/shop"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGHOSTADDR", "PGTARGETSESSIONATTRS"):
        monkeypatch.delenv(name, raising=False)


def wish(dsn: str) -> object:
    return conninfo_to_dict(with_keepalive(dsn, "duly")).get("target_session_attrs")


def test_our_name_and_our_patience_reach_the_connection() -> None:
    parts = conninfo_to_dict(with_keepalive(ONE, "duly listener"))
    patience = {name: str(value) for name, value in KEEPALIVE.items()}
    given = {"user": "anna", "host": "db.example", "dbname": "shop"}
    assert {name: str(value) for name, value in parts.items()} == {
        **given,
        **patience,
        "application_name": "duly listener",
    }


@pytest.mark.parametrize("name", [*KEEPALIVE, "application_name"])
def test_what_the_user_wrote_wins(name: str) -> None:
    parts = conninfo_to_dict(with_keepalive(f"{ONE}?{name}=77", "duly"))
    assert str(parts[name]) == "77"
    others = {other: value for other, value in KEEPALIVE.items() if other != name}
    assert {other: parts[other] for other in others} == {other: str(value) for other, value in others.items()}


@pytest.mark.parametrize("dsn", [SEVERAL, "host=/one,/two", "hostaddr=10.0.0.1,10.0.0.2"])
def test_of_several_hosts_the_one_that_takes_writes_is_wanted(dsn: str) -> None:
    assert wish(dsn) == "read-write"


def test_one_host_is_taken_as_it_is() -> None:
    assert wish(ONE) is None


def test_whoever_wants_another_of_several_hosts_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wish(f"{SEVERAL}?target_session_attrs=standby") == "standby"
    monkeypatch.setenv("PGTARGETSESSIONATTRS", "any")
    assert wish(SEVERAL) is None


def test_hosts_in_variables_count_where_the_address_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "one.example,two.example")
    assert wish("dbname=shop") == "read-write"
    assert wish(ONE) is None
