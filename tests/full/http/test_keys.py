"""Authentication: keys, scopes, orgs, and local requests, which need no key until the first one is created."""

import json
import socket
import subprocess

import httpx2
import psycopg
from psycopg.conninfo import make_conninfo

from duly.accounts import service
from duly.accounts.model import new_secret
from duly.testing import install_test_clock, move_clock
from tests.fast.http.test_keys import api, bearer, is_refused
from tests.support.api import as_owner, client_for, key_for
from tests.support.processes import PYTHON, Program, plain_environment

__all__ = ["api"]


def test_health_needs_no_key(database: str, api: httpx2.Client) -> None:
    key_for(database, "acme")
    for path in ("/healthz", "/readyz", "/openapi.json"):
        assert api.get(path).status_code == 200


# With a key -----------------------------------------------------------------------------------------------------------


def test_only_a_valid_api_key_is_accepted(database: str, api: httpx2.Client) -> None:
    with psycopg.connect(database, autocommit=True) as admin:
        install_test_clock(admin)
        key, short = key_for(database, "acme"), key_for(database, "acme", seconds=3600)
        for headers in (
            bearer(new_secret()),
            bearer(key.key.prefix),
            bearer(key.secret[:-1]),
            {"Authorization": "Bearer"},
            {"Authorization": key.secret},
            {"Authorization": f"Basic {key.secret}"},
            {"Authorization": ""},
            {"X-Api-Key": key.secret},
        ):
            is_refused(api.get("/v1/jobs", headers=headers), 401, "UNAUTHORIZED")
        assert api.get("/v1/jobs", headers={"Authorization": f"bearer  {key.secret}"}).status_code == 200
        assert api.get("/v1/jobs", headers=bearer(short.secret)).status_code == 200
        move_clock(admin, 3601)
        assert "expired" in is_refused(api.get("/v1/jobs", headers=bearer(short.secret)), 401, "UNAUTHORIZED")


# One org and another --------------------------------------------------------------------------------------------------


# Where it listens -----------------------------------------------------------------------------------------------------


def test_serve_refuses_a_public_address_until_an_api_key_exists(database: str) -> None:
    environment = plain_environment(DATABASE_URL=database, DULY_HOST="0.0.0.0")
    command = [*PYTHON, "-m", "duly", "serve", "--port", "0"]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (answer.returncode, answer.stdout) == (78, "")
    for text in ("DULY_HOST='0.0.0.0'", "duly keys create", "DULY_HOST=127.0.0.1"):
        assert text in answer.stderr
    key = key_for(database, "acme")
    as_owner(database, lambda pool: service.revoke_key(pool, key.key.prefix))  # a lock is a lock
    with Program(command, environment=environment) as program:
        port = program.line().rsplit(":", 1)[1]
        with client_for(f"http://127.0.0.1:{port}") as client:
            assert client.get("/healthz").status_code == 200
            is_refused(client.get("/v1/jobs"), 401, "UNAUTHORIZED")


def test_serve_refuses_an_inherited_public_socket_without_an_api_key(database: str) -> None:
    with socket.create_server(("0.0.0.0", 0)) as listener:
        command = [*PYTHON, "-m", "duly", "serve", "--fd", str(listener.fileno()), "--json"]
        environment = plain_environment(DATABASE_URL=database)
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, pass_fds=(listener.fileno(),))
    assert answer.returncode == 78
    assert json.loads(answer.stdout)["error"]["code"] == "MISCONFIGURED"


def test_serve_on_a_public_address_names_an_unreachable_or_unmigrated_database(database: str) -> None:
    with socket.socket() as unused_socket:
        unused_socket.bind(("127.0.0.1", 0))
        port = unused_socket.getsockname()[1]
        for url, status, text in (
            (f"postgresql://user:hunter2@127.0.0.1:{port}/name", 69, "cannot connect to 127.0.0.1"),
            (make_conninfo(database, dbname="postgres"), 78, "duly migrate"),
        ):
            answer = subprocess.run(
                [*PYTHON, "-m", "duly", "serve", "--port", "0"],
                env=plain_environment(DATABASE_URL=url, DULY_HOST="0.0.0.0"),
                capture_output=True,
                text=True,
            )
            assert answer.returncode == status, answer.stderr
            assert text in answer.stderr
            assert "hunter2" not in answer.stderr
