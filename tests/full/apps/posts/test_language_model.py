"""A model called over HTTP: whatever its server does, there is a reading, and an error code for each failure."""

import json
import time
from collections.abc import Callable

import pytest

from duly.apps.posts.language_model import LanguageModelAnalyzer
from duly.apps.posts.work import PostWork
from duly.lease.work import Tuning
from duly.storage import ObjectStore
from tests.fast.apps.posts.test_language_model import analyzer, failure_of, model
from tests.fast.apps.posts.test_work import create_due_posts, objects, release_all
from tests.support.posts.actions import PostActions
from tests.support.posts.model_server import CALM, Handler, ModelServer, completion
from tests.support.storage.pictures import gradient, written

__all__ = ["analyzer", "model", "objects"]

TUNING = Tuning(lease_seconds=30, heartbeat_seconds=1, poll_seconds=0.1, sweep_seconds=0.2, slots=20)


async def test_a_stalled_model_server_times_out(model: ModelServer) -> None:
    model.act = model.stall
    analyzer = LanguageModelAnalyzer("small-model", base_url=model.url, seconds=0.3)
    assert (await failure_of(analyzer)).code == "AI_TIMEOUT"
    assert len(model.asked) == 2
    await analyzer.close()


async def test_a_slowly_responding_model_server_times_out(model: ModelServer) -> None:
    def drip(it: Handler) -> None:
        it.send_response(200)
        it.send_header("content-type", "application/json")
        it.send_header("content-length", "100000")
        it.end_headers()
        while not model.gate.wait(0.05):
            it.wfile.write(b" ")

    model.act = drip
    analyzer = LanguageModelAnalyzer("small-model", base_url=model.url, seconds=0.5)
    began = time.monotonic()
    assert (await failure_of(analyzer)).code == "AI_TIMEOUT"
    assert 2.9 < time.monotonic() - began < 30  # two tries of half a second, and two seconds between
    await analyzer.close()


async def test_a_model_server_that_closes_mid_response_is_unreachable(
    analyzer: LanguageModelAnalyzer, model: ModelServer
) -> None:
    def hang_up(it: Handler) -> None:
        it.send_response(200)
        it.send_header("content-type", "application/json")
        it.send_header("content-length", "1000")
        it.end_headers()
        it.wfile.write(completion(CALM)[:50])
        it.close_connection = True

    model.act = hang_up
    assert (await failure_of(analyzer)).code == "AI_UNREACHABLE"


def lie(**changes: object) -> dict[str, object]:
    """An answer of nearly the right shape."""
    return {**CALM, **changes}


LIES: dict[str, Callable[[Handler], None]] = {
    "no JSON": lambda it: it.say(completion("calm, I would say")),
    "half JSON": lambda it: it.say(completion('{"mood": "calm", "mus')),
    "a mood of its own": lambda it: it.say(completion(lie(mood="groovy"))),
    "numbers": lambda it: it.say(completion(lie(music=7))),
    "a list": lambda it: it.say(completion([CALM])),
    "less": lambda it: it.say(completion({"mood": "calm"})),
    "more": lambda it: it.say(completion(lie(also="this"))),
    "half a character": lambda it: it.say(completion(lie(music="la \ud800"))),
    "blanks": lambda it: it.say(completion(lie(music="  "))),
    "null": lambda it: it.say(completion(None)),
    "no choices": lambda it: it.say(b'{"id": "1", "created": 1, "model": "m", "choices": []}'),
    "no message": lambda it: it.say(b'{"choices": [{"index": 0, "finish_reason": "stop"}]}'),
    "choices of another kind": lambda it: it.say(b'{"choices": "calm"}'),
    "an empty object": lambda it: it.say(b"{}"),
    "a number": lambda it: it.say(b"7"),
    "nothing": lambda it: it.say(b""),
    "a page": lambda it: it.say(b"<html>hello</html>", kind="text/html"),
    "a page called JSON": lambda it: it.say(b"<html>hello</html>"),
    "very much": lambda it: it.say(b'{"choices": "' + b"x" * 30_000_000 + b'"}'),
    "bytes": lambda it: it.say(bytes(range(256)) * 4),
}


@pytest.mark.parametrize("how", LIES)
async def test_an_invalid_response_of_a_model_server_is_rejected(
    how: str, analyzer: LanguageModelAnalyzer, model: ModelServer
) -> None:
    model.act = LIES[how]
    assert (await failure_of(analyzer)).code == "AI_BAD_OUTPUT"


# In a worker ----------------------------------------------------------------------------------------------------------


async def test_every_post_is_released_with_a_reading_of_the_model_or_of_rules(
    posts: PostActions, dsn: str, objects: ObjectStore, model: ModelServer, analyzer: LanguageModelAnalyzer
) -> None:
    """Success and every kind of failure at once, through a worker and PostgreSQL."""
    cases: dict[str, tuple[Callable[[Handler], None], str | None]] = {
        "fine": (lambda it: it.say(completion(CALM)), None),
        "busy": (lambda it: it.say(b"{}", 429), "AI_RATE_LIMITED"),
        "broken": (lambda it: it.say(b"{}", 500), "AI_UPSTREAM"),
        "locked": (lambda it: it.say(b"{}", 401), "AI_AUTH"),
        "lying": (LIES["a mood of its own"], "AI_BAD_OUTPUT"),
        "shouting": (LIES["very much"], "AI_BAD_OUTPUT"),
        "stalling": (model.stall, "AI_TIMEOUT"),
    }

    model.act = lambda it: cases[json.loads(it.asked.parts()[0]["text"])["caption"]][0](it)
    create_due_posts(posts, list(cases))
    for name in posts.columns("image_url"):
        await objects.put(name, written(gradient()))
    await release_all(posts, dsn, PostWork(analyzer, TUNING, objects=objects, analyzer_seconds=15))
    found = {caption: (error, ai["provider"]) for caption, error, ai in posts.columns("caption", "ai_error", "ai")}
    assert found == {case: (code, "rules" if code else "openai") for case, (_, code) in cases.items()}
    assert all(len(each.parts()) == 2 for each in model.asked)
