"""The scenarios: each lets one variant do one thing, and returns figures; it knows of no rounds."""

from dataclasses import dataclass

from tools.bench.posts.intents import BARE_APP, OUR_APP, measure_intents
from tools.bench.posts.release import Due, measure_release
from tools.bench.posts.server import PostsServer
from tools.bench.report import Figures
from tools.bench.run import Scenario

DULY, BARE = "duly", "bare"
FEW, MANY = "few stored", "many stored"
VARIANTS = (DULY, BARE, FEW, MANY)
WORKERS = {DULY: "tools.bench.posts.worker", BARE: "tools.bench.posts.bare_worker"}
APPS = {DULY: OUR_APP, BARE: BARE_APP}


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run."""

    posts: int = 100_000  # that are due in the same minute; a fifth of them where tables grow
    stored: int = 1_000_000  # released long ago, where there are many; a hundredth of it where there are few
    intents: int = 2_000  # beside few stored posts, if not many: an empty table is planned for as no other is
    clients: int = 8
    minute_seconds: float = 60.0  # how long a minute is, where posts are due all through it
    warm_waves: int = 20  # of a few posts, and requests of each client, before anything is measured

    def stored_for(self, variant: str) -> int:
        """Return how many posts are stored already."""
        return self.stored if variant == MANY else self.stored // 100


def release(server: PostsServer, variant: str, sizes: Sizes) -> Figures:
    """Release posts that are all due at one moment: the worst case."""
    return measure_release(server, WORKERS[variant], Due(sizes.posts), sizes.warm_waves)


def minute(server: PostsServer, variant: str, sizes: Sizes) -> Figures:
    """Release as many, due one after the other through a minute."""
    return measure_release(server, WORKERS[variant], Due(sizes.posts, sizes.minute_seconds), sizes.warm_waves)


def release_beside(server: PostsServer, variant: str, sizes: Sizes) -> Figures:
    """Release fewer, all due at one moment, beside stored posts."""
    due = Due(max(1, sizes.posts // 5), stored=sizes.stored_for(variant))
    return measure_release(server, WORKERS[DULY], due, sizes.warm_waves)


def intents(server: PostsServer, variant: str, sizes: Sizes) -> Figures:
    """Create posts by HTTP, beside stored posts."""
    return measure_intents(
        server,
        APPS.get(variant, OUR_APP),
        intents=sizes.intents,
        clients=sizes.clients,
        warm_intents=sizes.warm_waves,
        stored=sizes.stored_for(variant),
    )


SCENARIOS = {
    each.name: each
    for each in (
        Scenario("release", "release, all due at one moment", release, (DULY, BARE)),
        Scenario("minute", "release, due all through a minute", minute, (DULY,)),
        Scenario("intents", "intents by HTTP", intents, (DULY, BARE)),
        Scenario("grown-release", "release beside stored posts", release_beside, (FEW, MANY)),
        Scenario("grown-intents", "intents beside stored posts", intents, (FEW, MANY)),
    )
}
CHOICES = {
    "release": ("release", "minute"),
    "intents": ("intents",),
    "growth": ("grown-release", "grown-intents"),
}
