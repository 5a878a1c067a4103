"""Jobs from a developer's side: declare a type once, ask for it inside your own transaction.

    app = App()

    @app.job("thumbnail", queue="images", timeout="2m")
    async def thumbnail(ctx: Context, image_id: str, size: int = 256) -> dict[str, str]: ...

    with engine.begin() as tx:                                  # nothing exists unless you commit
        thumbnail.on(tx, key="order:42").enqueue(image_id="a1")

On an async connection the same call is awaited. Wrong arguments are type errors, and refused again when the job is
asked for: a payload that its handler cannot take never gets into the ledger.
"""

import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Concatenate, Generic, Never, ParamSpec, TypedDict, TypeVar, Unpack, overload
from uuid import UUID

from duly.backoff import Backoff, BackoffPolicy
from duly.canonical_json import Json, checked_json
from duly.errors import InvalidArgument
from duly.jobs.context import Context
from duly.jobs.drivers import (
    AnyTransaction,
    AsyncTransaction,
    SyncTransaction,
    ask,
    ask_async,
    is_async,
    refuse_unsupported,
)
from duly.jobs.duration import Duration
from duly.jobs.failures import OnFailure
from duly.jobs.model import DEFAULT_ORG, Options, Request
from duly.jobs.validation import (
    MAX_CONCURRENCY,
    check_first_parameter,
    check_number,
    check_options,
    declared_options,
    declared_seconds,
)
from duly.jobs.work import Handler
from duly.outcomes import Creation

__all__ = ["App", "AsyncOrder", "JobType", "Order", "When"]


MAX_BYTES = 2**63 - 1
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

P = ParamSpec("P")
R = TypeVar("R")
Hook = TypeVar("Hook", bound=OnFailure)


class When(TypedDict, total=False):
    """What may be said of a job besides its arguments."""

    org: UUID
    key: str  # the same key and arguments make one job
    delay: Duration
    run_at: datetime  # with its time zone
    priority: int  # -100 to 100, higher first
    requested_by: str


ASKED = When.__annotations__.keys()


class App:
    """The job types of an application."""

    def __init__(self, *, org: UUID = DEFAULT_ORG) -> None:
        self.org = org
        self.types: dict[str, JobType[Any, Any]] = {}
        self.failure_hooks: list[OnFailure] = []

    def job(
        self,
        type: str,  # noqa: A002
        *,
        queue: str = "default",
        max_attempts: int = 5,
        backoff: BackoffPolicy | str | Backoff = BackoffPolicy.EXP,
        priority: int = 0,
        timeout: Duration | None = None,
        concurrency: int | None = None,
        retain: Duration = timedelta(days=30),
        isolate: bool = False,
        memory_bytes: int | None = None,
        **unknown: Never,
    ) -> Callable[[Callable[Concatenate[Context, P], R]], "JobType[P, R]"]:
        """Declare a type of job; the function performs it, and gives its arguments their names and types.

        At most `concurrency` jobs of it run at once, over all workers. What no job could be made from is refused here.
        """
        if unknown:
            elsewhere = {name: f"give it with the request: {type}.on(tx, {name}=...)" for name in ASKED}
            check_options(f"@app.job({type!r})", unknown, DECLARED, elsewhere)
        options = declared_options(
            type,
            queue=queue,
            max_attempts=max_attempts,
            backoff=backoff,
            priority=priority,
            timeout=timeout,
            retain=retain,
        )
        if concurrency is not None:
            check_number(f"concurrency={concurrency!r} of the job type '{type}'", concurrency, 1, MAX_CONCURRENCY)
        if memory_bytes is not None:
            check_number(f"memory_bytes={memory_bytes!r} of the job type '{type}'", memory_bytes, 1, MAX_BYTES)

        def declare(function: Callable[Concatenate[Context, P], R]) -> "JobType[P, R]":
            if type in self.types:
                raise InvalidArgument(f"the job type '{type}' is declared twice: each needs a name of its own")
            check_first_parameter(type, function)
            _, *taken = inspect.signature(function).parameters.values()
            if unnamed := [str(each) for each in taken if each.kind not in NAMED]:
                raise InvalidArgument(
                    f"the job type '{type}' takes {unnamed[0]}: a payload has named fields, so each argument needs one"
                )
            if isolate and function.__module__ == "__main__":
                raise InvalidArgument(
                    f"the job type '{type}' is isolated and stands in the script itself, which a child process cannot "
                    "import; move it into a module"
                )
            handler = Handler(type, function, queue, isolate, options.timeout_seconds, memory_bytes, concurrency)
            self.types[type] = made = JobType(self, function, handler, options)
            return made

        return declare

    def on_failure(self, hook: Hook) -> Hook:
        """Have a function called after each try that failed, with the job's context and the handler's exception.

        Where no exception is in reach (an isolated handler, a time limit, a failure that was returned), it gets the
        `duly.Failed` or `duly.GiveUp` that is recorded. It may be async. What it raises is logged and changes nothing.
        """
        self.failure_hooks.append(hook)
        return hook

    def handlers(self) -> list[Handler]:
        """Who performs what: for a worker."""
        return [each.handler for each in self.types.values()]


DECLARED = inspect.signature(App.job).parameters.keys() - {"self", "type", "unknown"}


@dataclass(frozen=True)
class JobType(Generic[P, R]):
    """A declared type of job. Calling it calls the function, as if it had never been declared."""

    app: App
    function: Callable[Concatenate[Context, P], R]
    handler: Handler
    options: Options

    def __call__(self, context: Context, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(context, *args, **kwargs)

    @overload
    def on(self, transaction: SyncTransaction, **when: Unpack[When]) -> "Order[P]": ...
    @overload
    def on(self, transaction: AsyncTransaction, **when: Unpack[When]) -> "AsyncOrder[P]": ...
    def on(self, transaction: AnyTransaction, **when: Unpack[When]) -> "Order[P] | AsyncOrder[P]":
        """Ask for a job inside this transaction: `.enqueue(...)` takes the handler's own arguments."""
        name = self.handler.type
        if not when.keys() <= ASKED:
            elsewhere = {each: f"declare it: @app.job({name!r}, {each}=...)" for each in DECLARED}
            check_options(f"{name}.on()", when, ASKED, elsewhere)
        refuse_unsupported(transaction)
        delay = when.get("delay")
        request = Request(
            org=when.get("org", self.app.org),
            type=name,
            queue=self.handler.queue,
            key=when.get("key"),
            run_at=when.get("run_at"),
            delay_seconds=None if delay is None else declared_seconds(f"delay={delay!r} of {name}.on()", delay),
            requested_by=when.get("requested_by"),
            options=replace(self.options, priority=when.get("priority", self.options.priority)),
        )
        if is_async(transaction):
            return AsyncOrder(self, transaction, request)
        return Order(self, transaction, request)

    @cached_property
    def signature(self) -> inspect.Signature:
        """What the handler takes."""
        return inspect.signature(self.function)

    def payload_of(self, *args: P.args, **kwargs: P.kwargs) -> Mapping[str, Json]:
        """The arguments by name; refused when the handler could not be called with them or they are not JSON."""
        try:
            given = self.signature.bind(None, *args, **kwargs)
        except TypeError as error:
            raise InvalidArgument(f"the job type '{self.handler.type}' cannot be called like this: {error}") from None
        _, *named = given.arguments.items()
        return checked_json(dict(named))


@dataclass(frozen=True)
class Order(Generic[P]):
    """A job about to be asked for, on a connection that is not async."""

    of: JobType[P, Any]
    transaction: SyncTransaction
    request: Request

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Creation[UUID]:
        """Ask for it: `Created(id)`, or `Existing(id)` when the same request came before; KeyReused on another."""
        return ask(self.transaction, replace(self.request, payload=self.of.payload_of(*args, **kwargs)))


@dataclass(frozen=True)
class AsyncOrder(Generic[P]):
    """A job about to be asked for, on an async connection."""

    of: JobType[P, Any]
    transaction: AsyncTransaction
    request: Request

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Creation[UUID]]:
        """Ask for it, to be awaited; see `Order.enqueue`."""
        return ask_async(self.transaction, replace(self.request, payload=self.of.payload_of(*args, **kwargs)))
