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


def session_attribute(dsn: str) -> object:
    return conninfo_to_dict(with_keepalive(dsn, "duly")).get("target_session_attrs")


def test_with_keepalive_adds_application_name_and_keepalive_parameters() -> None:
    parts = conninfo_to_dict(with_keepalive(ONE, "duly listener"))
    patience = {name: str(value) for name, value in KEEPALIVE.items()}
    given = {"user": "anna", "host": "db.example", "dbname": "shop"}
    assert {name: str(value) for name, value in parts.items()} == {
        **given,
        **patience,
        "application_name": "duly listener",
    }


@pytest.mark.parametrize("name", [*KEEPALIVE, "application_name"])
def test_parameters_in_the_url_take_precedence(name: str) -> None:
    parts = conninfo_to_dict(with_keepalive(f"{ONE}?{name}=77", "duly"))
    assert str(parts[name]) == "77"
    others = {other: value for other, value in KEEPALIVE.items() if other != name}
    assert {other: parts[other] for other in others} == {other: str(value) for other, value in others.items()}


@pytest.mark.parametrize("dsn", [SEVERAL, "host=/one,/two", "hostaddr=10.0.0.1,10.0.0.2"])
def test_url_with_several_hosts_requires_a_read_write_session(dsn: str) -> None:
    assert session_attribute(dsn) == "read-write"


def test_url_with_one_host_sets_no_session_attribute() -> None:
    assert session_attribute(ONE) is None


def test_explicit_target_session_attrs_take_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert session_attribute(f"{SEVERAL}?target_session_attrs=standby") == "standby"
    monkeypatch.setenv("PGTARGETSESSIONATTRS", "any")
    assert session_attribute(SEVERAL) is None


def test_pghost_counts_where_the_url_names_no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "one.example,two.example")
    assert session_attribute("dbname=shop") == "read-write"
    assert session_attribute(ONE) is None
