"""Posts as work for a worker: a due post is read by the analyzer and released.

Whatever fails while reading, the post is released, with a reading by rules and an error code. A post that crashed its
worker at all five starts is not read again. Posts claimed together with it were started as often: the last two starts
are run one post at a time, so that only the post that crashes workers stays unread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from duly.apps.posts import repository
from duly.apps.posts.alerts import Alerts
from duly.apps.posts.messages import texts_by_language
from duly.apps.posts.model import MAX_ATTEMPTS
from duly.apps.posts.reading import Analyzer, Mood, Reading, ReadingFailed, to_ai_error
from duly.apps.posts.rules import MUSIC, PROVIDER, RULES_VERSION, fallback_reading
from duly.apps.posts.states import POST
from duly.db.rows import Connection
from duly.errors import DulyError, InvalidArgument, NotFound, TooLarge
from duly.executors.call import Call
from duly.lease.crash_isolation import CrashIsolation
from duly.lease.operations import Lease, claim_rows, release_rows, settle_rows
from duly.lease.work import LeaseOutcome, StopSignal, Tuning, Work
from duly.logging import get_log
from duly.outcomes import Failed, GiveUp
from duly.storage import ObjectStore
from duly.storage.photo import MAX_PHOTO_BYTES

PURGE_BATCH = 500
SHARED_STARTS = 3  # starts of a post together with others; later ones are run alone
TOO_MANY_ATTEMPTS = "TOO_MANY_ATTEMPTS"
IMAGE_MISSING = "IMAGE_MISSING"
IMAGE_UNREADABLE = "IMAGE_UNREADABLE"
STORE_UNAVAILABLE = "STORE_UNAVAILABLE"

log = get_log("duly.posts")


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The reading of a post, and the error code and detail if it is a fallback."""

    reading: Reading
    error: str | None = None
    detail: str | None = None  # for the log; only the code is stored


class PostWork(Work):
    """Due posts as work for a worker."""

    name = "posts"
    table = POST
    has_unleased_work = True

    def __init__(
        self,
        analyzer: Analyzer,
        tuning: Tuning,
        *,
        objects: ObjectStore | None = None,
        analyzer_seconds: float = 20.0,
        alerts: Alerts | None = None,
    ) -> None:
        self.analyzer = analyzer
        self.tuning = tuning
        self.objects = objects  # None: only captions are read
        self.analyzer_seconds = analyzer_seconds
        self.alerts = alerts  # None: objectives are not checked
        self.crash_isolation = CrashIsolation(
            max_shared_starts=SHARED_STARTS,
            max_starts=MAX_ATTEMPTS,
            timeout_seconds=tuning.lease_seconds + analyzer_seconds,
        )

    async def claim(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[UUID] | None = None
    ) -> list[Lease]:
        """Claim due posts; of those started often keep one, and release the others without counting a start."""
        claimed = await claim_rows(
            connection, POST, worker_id, lease_seconds=self.tuning.lease_seconds, limit=limit, keys=keys
        )
        kept, deferred = self.crash_isolation.split(claimed)
        if deferred:
            await release_rows(connection, deferred)
        return kept

    async def release(self, connection: Connection, leases: Sequence[Lease]) -> frozenset[UUID]:
        """Release leases without counting a start."""
        released = await release_rows(connection, leases)
        self.crash_isolation.note_ended([lease.key for lease in leases])
        return released

    def build_call(self, lease: Lease, stop_signal: StopSignal) -> Call:  # noqa: ARG002
        """Return the call that reads a post, or leaves it unread after too many starts."""
        row = lease.row
        if row["process_attempts"] > MAX_ATTEMPTS:
            return Call(skip_reading)
        return Call(self.read, (row["caption"], row["image_url"]), timeout_seconds=self.analyzer_seconds)

    async def read(self, caption: str, image_url: str | None) -> ReadResult:
        """Read caption and image by the analyzer; return a fallback with an error code when that fails."""
        photo, photo_error = await self.fetch_photo(image_url)
        try:
            return ReadResult(await self.analyzer.read(caption, photo), photo_error)
        except ReadingFailed as problem:
            return ReadResult(problem.reading or fallback_reading(caption), problem.code, problem.message)
        except TimeoutError as problem:  # raised by the analyzer; our own timeout reaches `settle` as Failed
            return ReadResult(fallback_reading(caption), to_ai_error(problem), str(problem))

    async def fetch_photo(self, image_url: str | None) -> tuple[bytes | None, str | None]:
        """Return the image, or the error code why there is none."""
        if self.objects is None or image_url is None:
            return None, None
        try:
            return await self.objects.get(image_url, MAX_PHOTO_BYTES), None
        except (NotFound, InvalidArgument):  # a document of the first version may name anything
            return None, IMAGE_MISSING
        except TooLarge:
            return None, IMAGE_UNREADABLE
        except DulyError:
            return None, STORE_UNAVAILABLE

    async def settle(self, connection: Connection, finished: Sequence[LeaseOutcome]) -> frozenset[UUID]:
        """Release posts and notify their authors, once."""
        results = [result_from_outcome(lease, outcome) for lease, outcome in finished]
        released = await settle_rows(
            connection,
            [lease for lease, _ in finished],
            POST.statements.settle_released,
            ai=[orjson.dumps(each.reading.document()).decode() for each in results],
            ai_error=[each.error for each in results],
        )
        if released:
            await repository.write_notices(connection, sorted(released), texts_by_language("released"))
        self.crash_isolation.note_ended([lease.key for lease, _ in finished])
        for (lease, _), result in zip(finished, results, strict=True):
            if result.error:
                log.info("post.reading_failed", key=str(lease.key), code=result.error, detail=result.detail)
        return released

    async def run_unleased(self, connection: Connection) -> int:
        """Check the service level objectives and write alerts."""
        return await self.alerts.check(connection) if self.alerts else 0

    async def maintain(self, connection: Connection) -> int:
        """Delete expired responses, and uploaded images without a post; return how many."""
        deleted = await repository.retain(connection, PURGE_BATCH)
        if self.objects is not None and (names := await repository.expire_uploads(connection, PURGE_BATCH)):
            await self.objects.remove(names)
            deleted += len(names)
        return deleted


WHY_UNREAD = "Neither the caption nor the photo was read."
UNREAD = Reading(Mood.NEUTRAL, MUSIC[Mood.NEUTRAL][0], WHY_UNREAD, PROVIDER, RULES_VERSION)


async def skip_reading() -> ReadResult:
    """Return a neutral result without reading anything, for a post that crashed five workers."""
    return ReadResult(UNREAD, TOO_MANY_ATTEMPTS)


def result_from_outcome(lease: Lease, outcome: Any) -> ReadResult:
    """Convert any outcome of a reading to the result that is stored."""
    if isinstance(outcome, ReadResult):
        return outcome
    code, detail = (outcome.code, outcome.message) if isinstance(outcome, Failed | GiveUp) else ("AI_FAILED", None)
    return ReadResult(fallback_reading(lease.row["caption"]), to_ai_error(code), detail)
