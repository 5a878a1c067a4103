"""The proxy that other tests break wires with does what it says, in both ways of speaking the protocol."""

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from duly.db.pool import connect
from tests.support.proxy import Proxy

SECONDS = 30.0


@pytest.fixture
def proxy(database: str) -> Generator[Proxy, None, None]:
    """A proxy to a database with one table."""
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("create table note (text text)")
    with Proxy(database) as proxy:
        yield proxy


@pytest.fixture(params=[psycopg.Cursor, psycopg.ClientCursor], ids=["extended", "simple"])
def client(proxy: Proxy, request: pytest.FixtureRequest) -> Generator[psycopg.Connection[Any], None, None]:
    """A client behind the proxy, of either way: parameters on their own, or inside the text."""
    with psycopg.connect(proxy.address, autocommit=True, cursor_factory=request.param) as client:
        yield client


def write(client: psycopg.Connection[Any], text: str) -> None:
    client.execute("insert into note values (%s)", [text])


def notes(database: str) -> list[str]:
    with psycopg.connect(database) as admin:
        return [text for (text,) in admin.execute("select text from note order by text")]


def test_proxy_passes_on_an_error_of_the_server(proxy: Proxy) -> None:
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(proxy.address, dbname="no_such_database")


def test_replies_before_the_cut_in_a_pipeline_arrive(proxy: Proxy, database: str) -> None:
    with psycopg.connect(proxy.address, autocommit=True) as client:
        first = client.cursor()
        proxy.cut_after(b"insert into note")
        with pytest.raises(psycopg.OperationalError):
            query_and_write(client, first, "unheard of")
    assert first.fetchone() == (1,)
    assert notes(database) == ["unheard of"]


def query_and_write(client: psycopg.Connection[Any], first: psycopg.Cursor[Any], text: str) -> None:
    """Two requests on their way before either is answered."""
    with client.pipeline() as pipeline:
        first.execute("select 1")
        pipeline.sync()
        write(client, text)


async def test_requests_are_executed_although_replies_are_dropped(proxy: Proxy, database: str) -> None:
    async with await connect(proxy.address) as client:
        swallowed = proxy.drop_answers()
        writing = asyncio.create_task(client.execute("insert into note values ('unheard of')"))
        assert await asyncio.to_thread(swallowed.wait, SECONDS)
        assert notes(database) == ["unheard of"]
        assert not writing.done()
        proxy.resume()
        with pytest.raises(psycopg.OperationalError):
            await writing
    async with await connect(proxy.address) as another:
        await another.execute("select 1")


def test_unreachable_server_ends_the_connection(tmp_path: Path) -> None:
    with Proxy(f"host={tmp_path} dbname=nowhere") as nowhere, pytest.raises(psycopg.OperationalError):
        psycopg.connect(nowhere.address)
