"""Clients: send requests in every domain, repeat those without an answer, and record every answer.

    python -m tests.proof.faults.clients <dsn> <directory> <seed>

A client's journal has one line of JSON per answer; a client knows nothing else. So do
the keys it is about to ask with: a row with any other key was made by no request.
Whatever comes between, a client asks again with the same key until it is answered; so a journal is what must be true.

A line on its input is a storm: `answers <runs> <taps>` or `intents <first author> <authors> <requests>`. When all of it
is answered a line on its output says how often it asked.
"""

import asyncio
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg

from duly.apps.ingest.service import Ingest
from duly.apps.posts import service as posts
from duly.apps.posts.model import Intent
from duly.apps.scheduler import service as scheduler
from duly.apps.scheduler.model import Action, Answer, RunStatus
from duly.backoff import Backoff
from duly.db.pool import Pool, open_pool
from duly.errors import AlreadyAnswered, AlreadyPosted, KeyReused, Refused, RunClosed, Unavailable
from duly.jobs import service as ledger
from duly.jobs.model import Job, JobOptions, JobRequest
from duly.outcomes import Created, Creation
from duly.settings import load_settings
from duly.storage import open_object_store
from tests.proof.faults.people import AUTHORS, CAPTURERS, INGEST, ORG
from tests.support.processes import pause

NOT_ANSWERED = (psycopg.Error, Unavailable, OSError, TimeoutError)
HARD = JobOptions(max_attempts=200, backoff=Backoff(base_seconds=0.05, cap_seconds=0.5))
TWICE = JobOptions(max_attempts=2, backoff=Backoff(base_seconds=0.05, cap_seconds=0.1))
WELL = "well"
POISON = ("exit", "abort", "segfault", "memory", "loop", WELL)
BURNS = (*7 * (0.5,), 3.0)  # the last is twice as long as a lease
OPENING: Sequence[tuple[str, dict[str, Any]]] = [  # what every episode has at least once
    ("burn", {"seconds": max(BURNS)}),
    *(("alone", {"how": how}) for how in POISON),
]
LONG_SECONDS = 0.5  # who waited longer writes it down
STOCK_SECONDS = 5.0  # so long a storm waits for enough to answer
DRY_SECONDS = 60.0  # and so long for anything
CUSTOMERS = ("Anna", "Bertil", "Åke", "Örjan", "Ängla")


class Client:
    """A client whose requests follow from one seed."""

    def __init__(self, pool: Pool, directory: Path, seed: int) -> None:
        self.pool = pool
        self.objects = open_object_store(load_settings())
        self.seed = seed
        self.is_first = seed % 100 == 1  # of its world
        self.chance = random.Random(seed)  # noqa: S311
        self.journal = os.open(directory / f"journal-{seed}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.tuning = float(os.environ.get("CLIENT_SECONDS", "0.1"))
        self.is_over = False
        self.storms: set[asyncio.Task[None]] = set()

    def note(self, kind: str, **fields: object) -> None:
        """Write an answer to the journal, durably."""
        os.write(self.journal, (json.dumps({"kind": kind, **fields}, default=str) + "\n").encode())

    async def until_answered(self, what: str, request_once: Callable[[], Awaitable[Any]]) -> Any:
        """Ask, and ask again, until there is an answer; a refusal is one."""
        began = time.monotonic()
        try:
            while True:
                try:
                    return await request_once()
                except NOT_ANSWERED as error:
                    self.note("unanswered", what=what, error=type(error).__name__)
                    await pause(0.05)
        finally:
            if (waited := time.monotonic() - began) > LONG_SECONDS:
                self.note("waited", what=what, seconds=waited)

    # Jobs -------------------------------------------------------------------------------------------------------------

    def draw_job(self) -> tuple[str, dict[str, Any]]:
        """A kind of job, and what it is given."""
        kind = self.chance.choices(
            ["book", "nap", "thread", "stumble", "burn", "alone"], weights=[10, 6, 3, 3, 0.5, 0.7]
        )[0]
        match kind:
            case "book" | "nap" | "thread":
                return kind, {"seconds": self.chance.choice([0.0, 0.02, 0.4])}
            case "burn":
                return kind, {"seconds": self.chance.choice(BURNS)}
            case "alone":
                return kind, {"how": self.chance.choice(POISON)}
            case _:
                return kind, {}

    async def jobs(self, nth: int) -> None:
        """A job, once; now and then the same request again, or the key for something else."""
        kind, payload = OPENING[nth - 1] if self.is_first and nth <= len(OPENING) else self.draw_job()
        options = TWICE if payload.get("how", WELL) != WELL else HARD
        key = f"{self.seed}-{nth}"
        request = JobRequest(ORG, kind, payload, idempotency_key=key, options=options)
        self.note("asks", what="job", key=key)
        made: Creation[Job] = await self.until_answered("job", lambda: ledger.enqueue(self.pool, request))
        self.note("job", id=made.row.id, type=kind, key=key, created=isinstance(made, Created))
        if self.chance.random() < 0.2:
            again: Creation[Job] = await self.until_answered("job", lambda: ledger.enqueue(self.pool, request))
            self.note("job", id=again.row.id, type=kind, key=key, created=isinstance(again, Created))
            if isinstance(again, Created) or again.row.id != made.row.id:
                self.note("broken", what=f"the key {key} made {made.row.id} and {again.row.id}")
        if self.chance.random() < 0.05:
            other = JobRequest(ORG, kind, {"seconds": 9.0}, idempotency_key=key, options=options)
            try:
                await self.until_answered("job", lambda: ledger.enqueue(self.pool, other))
                self.note("broken", what=f"the key {key} stands for two requests")
            except KeyReused:
                pass

    # Posts ------------------------------------------------------------------------------------------------------------

    async def posts(self, nth: int) -> None:
        """A post, once, however many ask for it: half of them with one request id, half with their own."""
        author = AUTHORS[(self.seed * 1000 + nth) % len(AUTHORS)]
        await self.request_post(author, self.chance.choice([1, 1, 1, 6]))

    async def request_post(self, author: str, several: int) -> None:
        """So many requests at once for one post."""
        upload = partial(posts.upload_image, self.pool, self.objects, author, b"a picture")
        name = await self.until_answered("upload", upload)
        request = uuid4()
        ids = [request if each % 2 == 0 else uuid4() for each in range(several)]

        async def request_once(request_id: UUID) -> None:
            self.note("asks", what="post", key=request_id)
            intent = Intent(author, name, f"a day of {author}, and I was happy", request_id)
            try:
                made = await self.until_answered("post", lambda: posts.create_intent(self.pool, self.objects, intent))
            except Refused as error:  # another has the day
                self.note("refused", what="post", code=error.code)
                if several == 1 and not isinstance(error, AlreadyPosted):
                    self.note("broken", what=f"the post of {author} was refused: {error}")
            else:
                self.note(
                    "post", id=made.row["postId"], author=author, request=request_id, created=isinstance(made, Created)
                )

        await asyncio.gather(*map(request_once, ids))

    # Captures ---------------------------------------------------------------------------------------------------------

    async def captures(self, _: int) -> None:
        """A session whose day is given; several clients see the same days."""
        user = self.chance.choice(CAPTURERS)
        several = self.chance.sample(CUSTOMERS, self.chance.randint(1, 3))
        entries = [
            {
                "start": f"{8 + 3 * nth:02d}:00",
                "end": f"{10 + 3 * nth:02d}:00",
                "title": f"{customer} • Städning",
                "location": "Billdal",
            }
            for nth, customer in enumerate(several)
        ]
        day = {"schedule_date": f"2026-02-{self.chance.randint(10, 12)}", "entries": entries}
        made = await self.until_answered(
            "capture", lambda: Ingest(self.pool, INGEST).sessions.create_session(user, day)
        )
        self.note("capture", id=made.id, user=user)

    # Answers ----------------------------------------------------------------------------------------------------------

    async def answers(self, nth: int) -> None:
        """Whatever was asked of people is answered by several fingers at once."""
        if not self.storms:  # these want something left to answer
            await self.tap_all(await self.open_runs(3), 4, str(nth))

    async def open_runs(self, limit: int) -> list[int]:
        """Runs that wait for an answer."""
        request_once = partial(scheduler.list_runs, self.pool, None, status=RunStatus.SENT, limit=limit)
        page = await self.until_answered("list", request_once)
        return [run.id for run in page.items]

    async def tap_all(self, runs: Sequence[int], taps: int, name: str) -> None:
        """So many fingers on each of these; some of them are the same finger twice."""
        actions = [self.chance.choice(["complete", "complete", "skip"]) for _ in range(taps)]
        await asyncio.gather(
            *(
                self.tap(run, action, f"{self.seed}-{name}-{nth % max(2, taps - 1)}")
                for run in runs
                for nth, action in enumerate(actions)
            )
        )

    async def tap(self, run: int, action: str, key: str) -> None:
        """One finger."""
        self.note("asks", what="answer", key=key)
        try:
            answer = Answer(Action(action), key)
            made = await self.until_answered("answer", lambda: scheduler.answer_run(self.pool, None, run, answer))
        except (AlreadyAnswered, KeyReused, RunClosed) as error:
            self.note("refused", what="answer", code=error.code)
        else:
            self.note("answer", run=run, action=action, key=key, created=isinstance(made, Created))

    # Storms -----------------------------------------------------------------------------------------------------------

    def read_command(self) -> None:
        """A line on our input: a storm begins."""
        if line := sys.stdin.readline():
            name, *numbers = line.split()
            storm = self.storm_of_answers if name == "answers" else self.storm_of_intents
            task = asyncio.create_task(self.report_when_done(storm(*map(int, numbers))))
            self.storms.add(task)
            task.add_done_callback(self.storms.discard)
        else:
            asyncio.get_running_loop().remove_reader(0)

    async def report_when_done(self, storm: Awaitable[int]) -> None:
        """Let it pass, and say how often it asked."""
        os.write(1, f"asked {await storm}\n".encode())

    async def storm_of_answers(self, limit: int, taps: int) -> int:
        """As soon as there are runs to answer, all of them are, many times."""
        began = time.monotonic()
        while len(runs := await self.open_runs(limit)) < limit:
            if time.monotonic() > began + (STOCK_SECONDS if runs else DRY_SECONDS):
                break
            await pause(0.05)
        await self.tap_all(runs, taps, f"storm-{uuid4()}")
        return len(runs) * taps

    async def storm_of_intents(self, first: int, several: int, requests: int) -> int:
        """Every author is asked for, many times."""
        authors = [AUTHORS[(first + nth) % len(AUTHORS)] for nth in range(several)]
        await asyncio.gather(*(self.request_post(author, requests) for author in authors))
        return several * requests

    # All of it --------------------------------------------------------------------------------------------------------

    async def repeat_requests(self, request_once: Callable[[int], Awaitable[None]], every: float) -> None:
        """Ask for one thing after the other, until it is over."""
        nth = 0
        while not self.is_over:
            nth += 1
            await request_once(nth)
            await pause(every * self.tuning * self.chance.uniform(0.2, 1.8))

    async def run(self) -> None:
        """Send every kind of request until stopped; a request that was sent is still answered."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.stop)
        asyncio.get_running_loop().add_reader(0, self.read_command)
        os.write(1, b"ready\n")
        await asyncio.gather(
            self.repeat_requests(self.jobs, 1.0),
            self.repeat_requests(self.posts, 4.0),
            self.repeat_requests(self.captures, 3.0),
            self.repeat_requests(self.answers, 4.0),
        )
        os.write(1, b"end\n")

    def stop(self) -> None:
        """It is over."""
        self.is_over = True


async def main(dsn: str, directory: str, seed: str) -> None:
    """Be a client."""
    async with open_pool(dsn, size=8) as pool:
        await Client(pool, Path(directory), int(seed)).run()


if __name__ == "__main__":
    threading.stack_size(256 * 1024)
    asyncio.run(main(*sys.argv[1:4]))
