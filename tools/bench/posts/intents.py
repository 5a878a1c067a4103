"""How many posts a second one API process creates by HTTP, each for an author of its own."""

import asyncio
import os
import shutil
import socket
import statistics
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from uuid import uuid4

import orjson
import psycopg
import uvloop
from psycopg.conninfo import make_conninfo

from duly.accounts.model import hash_secret, new_secret, parse_key_prefix
from duly.apps.posts.model import permanent_name
from tools.bench.posts import store
from tools.bench.posts.client import request_of, send_all
from tools.bench.posts.content import CAPTIONS
from tools.bench.posts.server import API, PostsServer
from tools.bench.processes import Process, launch, stop
from tools.bench.report import Figures

OUR_APP, BARE_APP = "duly", "tools.bench.posts.bare_app"
PHOTO_BYTES = 100_000
PATH = "/v1/createPostIntent"
MICRO = 1e6
NUMBERS = count(1)  # of directories of images


@dataclass(frozen=True)
class Author:
    """An author who is about to post."""

    uid: str
    secret: str
    upload: str
    caption: str

    @property
    def request(self) -> bytes:
        """Build the request."""
        body = {"imagePath": self.upload, "caption": self.caption, "requestId": str(uuid4())}
        return request_of(PATH, self.secret, orjson.dumps(body))


@dataclass(frozen=True)
class App:
    """An API process."""

    process: Process
    port: int


def measure_intents(
    server: PostsServer, program: str, *, intents: int, clients: int, warm_intents: int, stored: int = 0
) -> Figures:
    """Measure one API process under several clients, beside stored posts."""
    authors = make_authors(intents + clients * warm_intents)
    warm, measured = authors[intents:], authors[:intents]
    objects = server.home / f"objects-{next(NUMBERS)}"
    with server.database(stored) as dsn:
        prepare(dsn, objects, authors)
        with running_app(program, dsn, objects) as app, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(send_all(app.port, [each.request for each in warm], clients))
            server.checkpoint()
            requests = [each.request for each in measured]
            server_cpu, process_cpu, client_cpu = server.read_cpu(), app.process.cpu_seconds(), time.process_time()
            began_at = time.monotonic()
            waits = runner.run(send_all(app.port, requests, clients))
            seconds = time.monotonic() - began_at
            used = {
                "process_us": (app.process.cpu_seconds() - process_cpu) / intents * MICRO,
                "server_us": server.cpu_seconds_since(server_cpu) / intents * MICRO,
                "client_us": (time.process_time() - client_cpu) / intents * MICRO,
            }
        if program == OUR_APP:
            check(dsn, objects, measured)
    shutil.rmtree(objects)
    cuts = statistics.quantiles(waits, n=100, method="inclusive")
    return {"per_second": intents / seconds, "p50_ms": cuts[49] * 1000, "p95_ms": cuts[94] * 1000, **used}


def make_authors(people: int) -> list[Author]:
    """Create authors with a key and an image each."""
    return [
        Author(f"author-{number}", new_secret(), f"temp/{uuid4()}.jpg", CAPTIONS[number % len(CAPTIONS)])
        for number in range(people)
    ]


def prepare(dsn: str, objects: Path, authors: Sequence[Author]) -> None:
    """Store the authors and their uploaded images; return when everything is on disk."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        store.add_authors(
            connection,
            [each.uid for each in authors],
            [each.upload for each in authors],
            [parse_key_prefix(each.secret) or "" for each in authors],
            [hash_secret(each.secret) for each in authors],
        )
        store.vacuum(connection)
    (objects / "temp").mkdir(parents=True)
    photo = os.urandom(PHOTO_BYTES)  # it is never decoded: an upload was checked before
    for author in authors:
        (objects / author.upload).write_bytes(photo)
    os.sync()


@contextmanager
def running_app(program: str, dsn: str, objects: Path) -> Generator[App, None, None]:
    """Run an API process on a socket that is opened here, so that requests may wait for it to start."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        descriptor, port = listener.fileno(), listener.getsockname()[1]
        words = ["serve", "--fd", str(descriptor)] if program == OUR_APP else [str(descriptor), dsn]
        ours = {"DATABASE_URL": make_conninfo(dsn, user=API), "DULY_OBJECTS_DIR": str(objects)}
        environment = ours if program == OUR_APP else {}
        process = launch(program, *words, environment=environment, descriptors=[descriptor])
    try:
        yield App(Process(process), port)
    finally:
        stop(process)


def check(dsn: str, objects: Path, authors: Sequence[Author]) -> None:
    """Check that every request created a post with its lock, its answer and its image."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        made = store.count_intents(connection, [each.uid for each in authors])
    kept = sum(1 for author in authors if (objects / permanent_name(author.upload)).exists())
    if (made, kept) != (len(authors), len(authors)):
        raise RuntimeError(f"of {len(authors)} intents {made} made a post and {kept} kept an image")
