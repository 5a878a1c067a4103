"""Posts over HTTP: the contract, repeated requests, images, the feed, and every error."""

import json
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from uuid import uuid4

import httpx2
import psycopg
from psycopg import sql

from duly.configuration.engine import parse_address
from duly.db.admin import drop_database
from duly.errors import Unavailable
from duly.http.request_limits import MAX_BODY_BYTES
from duly.storage import ObjectStore
from duly.storage.photo import MAX_PHOTO_BYTES
from duly.testing import TestDatabases
from tests.fast.http.test_posts import (
    AS_JSON,
    INTENT,
    ApiEnvironment,
    anna,
    body_of,
    created_data,
    database,
    env,
    error_message,
    opened,
    problem,
    shared_client,
)
from tests.support.api import SECONDS, api_of
from tests.support.locks import wait_until_blocked

__all__ = ["anna", "database", "env", "shared_client"]


# Asking, to the letter ------------------------------------------------------------------------------------------------


def test_a_post_intent_without_a_database_answers_503_in_the_envelope(databases: TestDatabases, worker_id: str) -> None:
    with databases.clone(worker_id) as dsn, opened(dsn) as env:
        anna = env.person("anna")
        body = body_of(anna)
        env.admin.close()
        with psycopg.connect(databases.dsn, autocommit=True) as admin:
            drop_database(admin, parse_address(dsn)["dbname"])
        answer = anna.post(INTENT, json=body)
        error_message(answer, 503, "UNAVAILABLE")
        assert int(answer.headers["retry-after"]) > 0


# The same request again -----------------------------------------------------------------------------------------------


def test_a_client_that_disconnects_during_its_request_is_not_counted_as_a_failure(
    env: ApiEnvironment, anna: httpx2.Client
) -> None:
    for _ in range(3):
        start_request(anna, b'{"caption"', length=1000).close()
    created_data(anna.post(INTENT, json=body_of(anna)))
    env.stack.close()  # which ends what is under way, and writes the counts down
    assert read_counts(env) == {"CREATED": 1}


class Away(ObjectStore):
    """An object store that is unavailable."""

    async def copy(self, name: str, to: str) -> bool:
        """Raise Unavailable."""
        raise Unavailable(f"cannot copy {name} to {to} now")


def test_an_unreachable_object_store_fails_only_intents_that_copy_an_image(
    env: ApiEnvironment, anna: httpx2.Client
) -> None:
    bo, body = env.person("bo"), body_of(anna)
    first = anna.post(INTENT, json=body)
    new, others = body_of(anna), body_of(bo)
    with api_of(env.database, Away(env.objects.backend)) as address:
        again = anna.post(address + INTENT, json=body)
        assert (again.content, again.headers["duly-replayed"]) == (first.content, "true")
        error_message(anna.post(address + INTENT, json=new), 409, "ALREADY_POSTED", created_data(first)["postId"])
        error_message(anna.post(address + INTENT, json={**body, "caption": "x"}), 409, "REQUEST_ID_REUSED")
        assert "cannot copy" in error_message(bo.post(address + INTENT, json=others), 503, "UNAVAILABLE")
    created_data(bo.post(INTENT, json=others))


# Images ---------------------------------------------------------------------------------------------------------------


# Looking --------------------------------------------------------------------------------------------------------------


# Other words ----------------------------------------------------------------------------------------------------------


# On behalf of another person ------------------------------------------------------------------------------------------


# How the promises stand -----------------------------------------------------------------------------------------------


def read_counts(env: ApiEnvironment) -> Counter[str]:
    """Return the stored outcomes of requests."""
    with psycopg.connect(env.database) as admin:
        found = admin.execute("select outcome, sum(intents)::int from posts.intent_minutes group by outcome").fetchall()
    return Counter(dict(found))


def test_every_intent_is_counted_by_its_outcome(env: ApiEnvironment, anna: httpx2.Client) -> None:
    body, function = body_of(anna), "posts.create_intent(text, uuid, bytea, text, text, boolean)"
    env.admin.execute(f"revoke execute on function {function} from duly_api".encode())
    error_message(anna.post(INTENT, json=body), 500, "UNEXPECTED")
    env.admin.execute(f"grant execute on function {function} to duly_api".encode())
    for _ in range(3):
        created_data(anna.post(INTENT, json=body))
    anna.post(INTENT, json={**body, "caption": "Another"})
    anna.post(INTENT, json=body_of(anna))
    anna.post(INTENT, json={})
    anna.post(INTENT, content=b"\xff", headers=AS_JSON)
    env.anonymous().post(INTENT, json=body)
    env.person("bo", ["posts:read"]).post(INTENT, json=body)
    announced(anna, INTENT, MAX_BODY_BYTES + 1)
    env.stack.close()
    assert read_counts(env) == {
        "UNEXPECTED": 1,
        "CREATED": 1,
        "REPLAYED": 2,
        "REQUEST_ID_REUSED": 1,
        "ALREADY_POSTED": 1,
        "INVALID_ARGUMENT": 2,
        "UNAUTHORIZED": 1,
        "FORBIDDEN": 1,
        "TOO_LARGE": 1,
    }


def test_intent_counts_are_written_while_the_api_serves(env: ApiEnvironment, anna: httpx2.Client) -> None:
    env.admin.execute(
        "create function posts.tell() returns trigger language plpgsql as 'begin notify counted; return null; end';"
        "create trigger tell after insert on posts.intent_minutes execute function posts.tell(); listen counted"
    )
    anna.post(INTENT, json={})
    assert list(env.admin.notifies(timeout=SECONDS, stop_after=1))
    assert read_counts(env) == {"INVALID_ARGUMENT": 1}


def test_intents_refused_during_a_database_outage_are_counted_after_it(
    env: ApiEnvironment, databases: TestDatabases
) -> None:
    anna, name = env.person("anna"), sql.Identifier(parse_address(env.database)["dbname"])
    body = body_of(anna)
    with psycopg.connect(databases.dsn, autocommit=True) as server:
        server.execute(sql.SQL("alter database {} with allow_connections false").format(name))
        env.admin.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        detail = error_message(anna.post(INTENT, json=body), 503, "UNAVAILABLE")
        server.execute(sql.SQL("alter database {} with allow_connections true").format(name))
    assert "connection" in detail
    created_data(anna.post(INTENT, json=body))
    env.stack.close()
    assert read_counts(env) == {"UNAVAILABLE": 1, "CREATED": 1}


def test_an_intent_over_the_size_limit_is_refused_from_its_header_or_cut_off(shared_client: httpx2.Client) -> None:
    answer = announced(shared_client, INTENT, MAX_BODY_BYTES + 1)
    assert str(MAX_BODY_BYTES) in error_message(answer, 413, "TOO_LARGE")
    answer = shared_client.post(INTENT, content=parts_of(2 * MAX_BODY_BYTES), headers=AS_JSON)
    assert "transfer-encoding" in answer.request.headers
    error_message(answer, 413, "TOO_LARGE")


def announced(person: httpx2.Client, path: str, size: int) -> httpx2.Response:
    """Announce a body without sending it, and return the response."""
    connection = HTTPConnection(person.base_url.host, person.base_url.port or 80, timeout=SECONDS)
    with closing(connection):
        connection.putrequest("POST", path)
        connection.putheader("Authorization", person.headers["authorization"])
        connection.putheader("Content-Length", str(size))
        connection.endheaders()
        answer = connection.getresponse()
        return httpx2.Response(answer.status, headers=list(answer.headers.items()), content=answer.read())


def parts_of(size: int) -> Iterator[bytes]:
    """Yield bytes in chunks of 1 MiB."""
    for _ in range(size // 1024**2):
        yield b" " * 1024**2


def test_a_client_that_lost_the_response_gets_it_replayed(env: ApiEnvironment, anna: httpx2.Client) -> None:
    body = body_of(anna)
    ((lock,),) = env.admin.execute("select posts.daily_key('anna', duly.clock()) || '_UTC'").fetchall()
    with psycopg.connect(env.database) as blocker:  # stands in the way until the client is gone
        blocker.execute("insert into posts.daily_locks (id, post_id) values (%s, %s)", [lock, uuid4()])
        with closing(start_request(anna, json.dumps(body).encode())):
            wait_until_blocked(env.database)
        assert env.count("posts") == 0
        blocker.rollback()
    answer = anna.post(INTENT, json=body)
    assert answer.headers["duly-replayed"] == "true"
    ((post,),) = env.admin.execute("select id from posts.posts").fetchall()
    assert created_data(answer)["postId"] == str(post)


def start_request(person: httpx2.Client, body: bytes, length: int | None = None) -> socket.socket:
    """Send a request, or the beginning of one, and return the connection without reading."""
    connection = socket.create_connection((person.base_url.host, person.base_url.port or 80), timeout=SECONDS)
    head = (
        f"POST {INTENT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Authorization: {person.headers['authorization']}\r\nContent-Length: {length or len(body)}\r\n\r\n"
    )
    connection.sendall(head.encode() + body)
    return connection


def test_an_image_over_the_size_limit_is_refused_from_its_header_or_cut_off(shared_client: httpx2.Client) -> None:
    path = "/v1/posts/images"
    assert str(MAX_PHOTO_BYTES) in problem(announced(shared_client, path, MAX_PHOTO_BYTES + 1), 413, "TOO_LARGE")
    answer = shared_client.post(path, content=parts_of(MAX_PHOTO_BYTES + 2 * 1024**2))
    problem(answer, 413, "TOO_LARGE")
