"""What a worker does with a post whose time has come: looks at it, has it read, and lets it appear.

Reading may fail in every way there is; a post appears all the same, with a reading by rules and the reason why. One
that was started five times, and took its worker with it each time, is not read again. Posts that were held together
with it were started as often: the last two times each is read without the others, so that only the one to blame is
left unread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from duly.apps.posts import repository
from duly.apps.posts.alerts import Alerts
from duly.apps.posts.model import MAX_ATTEMPTS, Status
from duly.apps.posts.reading import Analyzer, Mood, NoReading, Reading, error_code_of
from duly.apps.posts.rules import MUSIC, PROVIDER, RULES_VERSION, fallback_reading
from duly.apps.posts.states import POST
from duly.db.rows import Connection
from duly.errors import DulyError, InvalidArgument, NotFound, TooLarge
from duly.executors.call import Call
from duly.lease.crash_isolation import CrashIsolation
from duly.lease.operations import Lease, release, settle_many
from duly.lease.work import Finished, StopSign, Tuning, Work
from duly.logging import get_log
from duly.outcomes import Failed, GiveUp
from duly.storage import Objects
from duly.storage.photo import MAX_PHOTO_BYTES

__all__ = ["IT_IS_OUT", "PostWork", "Read"]

TIDIED_AT_ONCE = 500
TOGETHER = 3  # so many starts a post has in any company; the rest without another that had them
TOO_MANY_ATTEMPTS = "TOO_MANY_ATTEMPTS"
IMAGE_MISSING = "IMAGE_MISSING"
IMAGE_UNREADABLE = "IMAGE_UNREADABLE"
STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
IT_IS_OUT = {
    "en": "Your post is out: everybody can see it now.",
    "sv": "Ditt inlägg är ute: alla kan se det nu.",
    "zh": "您的帖子已发布，大家现在都能看到。",  # noqa: RUF001 (a comma of Chinese)
}

log = get_log("duly.posts")


@dataclass(frozen=True, slots=True)
class Read:
    """How a post was read, and what went wrong on the way, if anything did."""

    reading: Reading
    error: str | None = None
    why: str | None = None  # for the log: the code is all that is kept


class PostWork(Work):
    """Posts as a kind of work: those whose release time has come."""

    name = "posts"
    table = POST

    def __init__(
        self,
        analyzer: Analyzer,
        tuning: Tuning,
        *,
        objects: Objects | None = None,
        analyzer_seconds: float = 20.0,
        alerts: Alerts | None = None,
    ) -> None:
        self.analyzer = analyzer
        self.tuning = tuning
        self.objects = objects  # without, only captions are read
        self.analyzer_seconds = analyzer_seconds
        self.alerts = alerts  # without, nobody is told of broken promises
        self.crash_isolation = CrashIsolation(
            together=TOGETHER, limit=MAX_ATTEMPTS, seconds=tuning.lease_seconds + analyzer_seconds
        )

    async def claim(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[UUID] | None = None
    ) -> list[Lease]:
        """Hold due posts; of those that were started often one at a time, the others handed back unblamed."""
        kept, back = self.crash_isolation.choose(await super().claim(connection, worker_id, limit, keys))
        if back:
            await release(connection, back)
        return kept

    async def release(self, connection: Connection, leases: Sequence[Lease]) -> None:
        """Hand posts back unread and unblamed."""
        await super().release(connection, leases)
        self.crash_isolation.forget([lease.key for lease in leases])

    def call(self, lease: Lease, sign: StopSign) -> Call:  # noqa: ARG002
        """Read it; if that was tried too often, leave it unread."""
        row = lease.row
        if row["process_attempts"] > MAX_ATTEMPTS:
            return Call(give_up)
        return Call(self.read, (row["caption"], row["image_url"]), timeout_seconds=self.analyzer_seconds)

    async def read(self, caption: str, image_url: str | None) -> Read:
        """Have the analyzer look at caption and image; what could not be read is told by its code."""
        photo, missing = await self.photo_of(image_url)
        try:
            return Read(await self.analyzer.read(caption, photo), missing)
        except NoReading as problem:
            return Read(problem.reading or fallback_reading(caption), problem.code, problem.message)
        except TimeoutError as problem:  # the analyzer's own; ours is the worker's to tell
            return Read(fallback_reading(caption), error_code_of(problem), str(problem))

    async def photo_of(self, image_url: str | None) -> tuple[bytes | None, str | None]:
        """The image, or why there is none to look at."""
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

    async def settle(self, connection: Connection, finished: Sequence[Finished]) -> frozenset[UUID]:
        """Let posts appear, and tell their authors, once."""
        reads = [read_of(lease, outcome) for lease, outcome in finished]
        columns = {
            "ai": ("jsonb", [orjson.dumps(each.reading.document()).decode() for each in reads]),
            "ai_error": ("text", [each.error for each in reads]),
        }
        released = await settle_many(connection, [lease for lease, _ in finished], Status.RELEASED, columns)
        if released:
            await repository.write_notices(connection, sorted(released), IT_IS_OUT)
        self.crash_isolation.forget([lease.key for lease, _ in finished])
        for (lease, _), read in zip(finished, reads, strict=True):
            if read.error:
                log.info("a post could not be read as it should", key=str(lease.key), code=read.error, why=read.why)
        return released

    async def tend(self, connection: Connection) -> int:
        """See how the promises stand, and tell of what changed."""
        return await self.alerts.look(connection) if self.alerts else 0

    async def tidy(self, connection: Connection) -> int:
        """Forget answers whose time is over, and images that no post was made of."""
        gone = await repository.retain(connection, TIDIED_AT_ONCE)
        if self.objects is not None and (names := await repository.expire_uploads(connection, TIDIED_AT_ONCE)):
            await self.objects.remove(names)
            gone += len(names)
        return gone


WHY_UNREAD = "Neither the caption nor the photo was looked at."
UNREAD = Reading(Mood.NEUTRAL, MUSIC[Mood.NEUTRAL][0], WHY_UNREAD, PROVIDER, RULES_VERSION)


async def give_up() -> Read:
    """A post that five workers did not survive appears unread: nobody looks at it again, not even at its caption."""
    return Read(UNREAD, TOO_MANY_ATTEMPTS)


def read_of(lease: Lease, outcome: Any) -> Read:
    """What is written down of an outcome: every way in which a reading can end is one."""
    if isinstance(outcome, Read):
        return outcome
    code, why = (outcome.code, outcome.message) if isinstance(outcome, Failed | GiveUp) else ("AI_FAILED", None)
    return Read(fallback_reading(lease.row["caption"]), error_code_of(code), why)
