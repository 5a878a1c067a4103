"""The proxy that other tests break wires with does what it says, in both ways of speaking the protocol."""

import asyncio
import time
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from duly.db.pool import connect
from tests.fast.support.test_proxy import SECONDS, client, notes, proxy, write
from tests.support.proxy import Proxy

__all__ = ["client", "proxy"]


def test_the_proxy_passes_traffic_unchanged(proxy: Proxy, client: psycopg.Connection[Any], database: str) -> None:
    for nth in range(10):  # often enough to be prepared
        write(client, str(nth) * 100_000)
    assert [text[0] for text in notes(database)] == [str(nth) for nth in range(10)]
    with client.cursor().copy("copy note from stdin") as copy:
        copy.write_row(["copied"])
    assert "copied" in notes(database)
    assert (proxy.connections, proxy.connections_cut) == (1, 0)


def test_cut_after_passes_the_request_and_drops_its_answer(
    proxy: Proxy, client: psycopg.Connection[Any], database: str
) -> None:
    write(client, "before")
    proxy.cut_after(b"insert into note")
    with pytest.raises(psycopg.OperationalError):
        write(client, "unheard of")
    assert notes(database) == ["before", "unheard of"]
    assert proxy.connections_cut == 1


def test_cut_after_write_waits_for_a_commit_that_wrote_rows(
    proxy: Proxy, client: psycopg.Connection[Any], database: str
) -> None:
    for nth in range(8):  # often enough to be prepared
        write(client, str(nth))
    proxy.cut_after_write()
    with client.transaction():
        client.execute("select text from note for update")
    with client.transaction():
        client.execute("update note set text = 'another' where text = %s", ["absent"])
    with pytest.raises(psycopg.OperationalError), client.transaction():
        write(client, "unheard of")
    assert "unheard of" in notes(database)
    assert proxy.connections_cut == 1


def test_cut_after_write_treats_an_autocommitted_statement_as_a_commit(
    proxy: Proxy, client: psycopg.Connection[Any], database: str
) -> None:
    for nth in range(8):
        write(client, str(nth))
    proxy.cut_after_write()
    client.execute("select text from note")
    with pytest.raises(psycopg.OperationalError):
        write(client, "unheard of")
    assert "unheard of" in notes(database)


def test_cut_after_write_passes_commits_that_wrote_nothing(
    proxy: Proxy, client: psycopg.Connection[Any], database: str
) -> None:
    for nth in range(8):
        write(client, str(nth))
    proxy.cut_after_write()
    client.execute("update note set text = 'x' where text = 'absent'")
    client.execute("select text from note for no key update")
    with client.transaction():
        client.execute("select text from note for no key update")
    with pytest.raises(psycopg.errors.DivisionByZero):
        client.execute("insert into note select 'refused' where 1 / (select count(*) - 8 from note) > 0")
    with suppress(psycopg.errors.DivisionByZero), client.transaction():
        write(client, "undone")
        client.execute("select 1 / 0")
    client.execute("begin")
    write(client, "undone")
    client.execute("rollback")
    assert proxy.connections_cut == 0
    with pytest.raises(psycopg.OperationalError):
        write(client, "unheard of")
    assert notes(database) == [*map(str, range(8)), "unheard of"]


def test_cut_after_write_reads_is_new_from_the_result_of_a_function(
    proxy: Proxy, client: psycopg.Connection[Any], database: str
) -> None:
    client.execute("create unique index on note (text)")
    client.execute(
        "create function make(what text) returns table (is_new boolean, detail text) language plpgsql as $$ begin"
        " insert into note values (what) on conflict do nothing; return query select found, null::text; end $$"
    )
    client.execute("select * from make('there')")
    proxy.cut_after_write()
    for _ in range(8):
        assert client.execute("select * from make(%s)", ["there"]).fetchall() == [(False, None)]
    with pytest.raises(psycopg.OperationalError):
        client.execute("select * from make(%s)", ["unheard of"])
    assert notes(database) == ["there", "unheard of"]


def test_cut_before_drops_the_request(proxy: Proxy, client: psycopg.Connection[Any], database: str) -> None:
    write(client, "before")
    proxy.cut_before(b"insert into note")
    with pytest.raises(psycopg.OperationalError):
        write(client, "never sent")
    assert notes(database) == ["before"]
    assert proxy.connections_cut == 1


def test_a_cut_affects_one_request_and_only_its_connection(
    proxy: Proxy, client: psycopg.Connection[Any], database: str
) -> None:
    with psycopg.connect(proxy.address, autocommit=True) as other:
        proxy.cut_after(b"insert into note")
        with pytest.raises(psycopg.OperationalError):
            write(other, "first")
        write(client, "second")
    assert notes(database) == ["first", "second"]


def test_cut_ends_every_connection(proxy: Proxy, client: psycopg.Connection[Any]) -> None:
    with psycopg.connect(proxy.address, autocommit=True) as other:
        proxy.cut()
        for each in (client, other):
            with pytest.raises(psycopg.OperationalError):
                each.execute("select 1")
    assert (proxy.connections, proxy.connections_cut) == (2, 2)


async def test_frozen_traffic_is_delivered_after_resume(proxy: Proxy, database: str) -> None:
    async with await connect(proxy.address) as client:
        proxy.freeze()
        writing = asyncio.create_task(client.execute("insert into note values ('late')"))
        arriving = asyncio.create_task(connect(proxy.address))
        done, _ = await asyncio.wait({writing, arriving}, timeout=0.2)
        assert not done
        assert notes(database) == []
        proxy.resume()
        await writing
        await (await arriving).close()
    assert notes(database) == ["late"]


def test_a_frozen_connection_hides_that_its_client_closed(proxy: Proxy, database: str) -> None:
    client = psycopg.connect(proxy.address, autocommit=True, application_name="gone")
    proxy.freeze()
    client.close()
    assert is_connected(database, "gone")
    proxy.resume()
    deadline = time.monotonic() + SECONDS
    while is_connected(database, "gone"):
        assert time.monotonic() < deadline, "the server never heard of it"


def is_connected(database: str, name: str) -> bool:
    """Does the server think that a client of this name is there?"""
    with psycopg.connect(database) as admin:
        found = admin.execute("select pid from pg_stat_activity where application_name = %s", [name])
        return found.fetchone() is not None
