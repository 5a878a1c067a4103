"""The SDK: declare a job type once, enqueue jobs of it inside your own transaction.

    app = App()

    @app.job("thumbnail", queue="images", timeout="2m")
    async def thumbnail(ctx: Context, image_id: str, size: int = 256) -> dict[str, str]: ...

    with engine.begin() as tx:                                  # nothing exists unless you commit
        thumbnail.on(tx, key="order:42").enqueue(image_id="a1")

On an async connection the same call is awaited. Wrong arguments are type errors, and refused again at run time: a
payload that its handler does not accept is never enqueued.
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
from duly.jobs.duration import Duration
from duly.jobs.enqueue import (
    AnyTransaction,
    AsyncTransaction,
    SyncTransaction,
    check_supported,
    enqueue_async,
    enqueue_sync,
    is_async,
)
from duly.jobs.failures import OnFailure
from duly.jobs.model import DEFAULT_ORG, JobOptions, JobRequest
from duly.jobs.validation import (
    MAX_CONCURRENCY,
    check_first_parameter,
    check_integer,
    check_options,
    parse_options,
    parse_seconds,
)
from duly.jobs.work import Handler
from duly.outcomes import Creation

MAX_BYTES = 2**63 - 1
NAMED_PARAMETERS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

P = ParamSpec("P")
R = TypeVar("R")
Hook = TypeVar("Hook", bound=OnFailure)


class EnqueueOptions(TypedDict, total=False):
    """Options of one job, besides its arguments."""

    org: UUID
    key: str  # idempotency key: the same key and arguments create one job
    delay: Duration
    run_at: datetime  # with its time zone
    priority: int  # -100 to 100, higher first
    requested_by: str


ENQUEUE_OPTIONS = EnqueueOptions.__annotations__.keys()


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
        """Declare a job type; the function is its handler, and its parameters are the fields of the payload.

        At most `concurrency` jobs of the type run at once, over all workers. Raises InvalidArgument for bad options.
        """
        if unknown:
            hints = {name: f"pass it when you enqueue: {type}.on(tx, {name}=...)" for name in ENQUEUE_OPTIONS}
            check_options(f"@app.job({type!r})", unknown, DECLARATION_OPTIONS, hints)
        options = parse_options(
            type,
            queue=queue,
            max_attempts=max_attempts,
            backoff=backoff,
            priority=priority,
            timeout=timeout,
            retain=retain,
        )
        if concurrency is not None:
            check_integer(f"concurrency={concurrency!r} of the job type '{type}'", concurrency, 1, MAX_CONCURRENCY)
        if memory_bytes is not None:
            check_integer(f"memory_bytes={memory_bytes!r} of the job type '{type}'", memory_bytes, 1, MAX_BYTES)

        def declare(function: Callable[Concatenate[Context, P], R]) -> "JobType[P, R]":
            if type in self.types:
                raise InvalidArgument(f"the job type '{type}' is declared twice; give each a name of its own")
            check_first_parameter(type, function)
            _, *parameters = inspect.signature(function).parameters.values()
            if unnamed := [str(each) for each in parameters if each.kind not in NAMED_PARAMETERS]:
                raise InvalidArgument(
                    f"the job type '{type}' takes {unnamed[0]}: payload fields have names, so each parameter needs one"
                )
            if isolate and function.__module__ == "__main__":
                raise InvalidArgument(
                    f"the job type '{type}' is isolated and defined in __main__, which a child process cannot import; "
                    "move it into a module"
                )
            handler = Handler(type, function, queue, isolate, options.timeout_seconds, memory_bytes, concurrency)
            self.types[type] = job_type = JobType(self, function, handler, options)
            return job_type

        return declare

    def on_failure(self, hook: Hook) -> Hook:
        """Register a function to call after each failed attempt, with the job's context and the handler's exception.

        Where there is no exception (an isolated handler, a time limit, a returned failure), it gets the `duly.Failed`
        or `duly.GiveUp` that is recorded. It may be async. An exception it raises is logged and changes nothing.
        """
        self.failure_hooks.append(hook)
        return hook

    def handlers(self) -> list[Handler]:
        """List the handlers of all declared types, for a worker."""
        return [each.handler for each in self.types.values()]


DECLARATION_OPTIONS = inspect.signature(App.job).parameters.keys() - {"self", "type", "unknown"}


@dataclass(frozen=True)
class JobType(Generic[P, R]):
    """A declared job type. Calling it calls the function directly."""

    app: App
    function: Callable[Concatenate[Context, P], R]
    handler: Handler
    options: JobOptions

    def __call__(self, context: Context, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(context, *args, **kwargs)

    @overload
    def on(self, transaction: SyncTransaction, **options: Unpack[EnqueueOptions]) -> "Enqueuer[P]": ...
    @overload
    def on(self, transaction: AsyncTransaction, **options: Unpack[EnqueueOptions]) -> "AsyncEnqueuer[P]": ...
    def on(self, transaction: AnyTransaction, **options: Unpack[EnqueueOptions]) -> "Enqueuer[P] | AsyncEnqueuer[P]":
        """Bind the type to a transaction: `.enqueue(...)` of the result takes the handler's own arguments."""
        name = self.handler.type
        if not options.keys() <= ENQUEUE_OPTIONS:
            hints = {each: f"declare it: @app.job({name!r}, {each}=...)" for each in DECLARATION_OPTIONS}
            check_options(f"{name}.on()", options, ENQUEUE_OPTIONS, hints)
        check_supported(transaction)
        delay = options.get("delay")
        request = JobRequest(
            org=options.get("org", self.app.org),
            type=name,
            queue=self.handler.queue,
            idempotency_key=options.get("key"),
            run_at=options.get("run_at"),
            delay_seconds=None if delay is None else parse_seconds(f"delay={delay!r} of {name}.on()", delay),
            requested_by=options.get("requested_by"),
            options=replace(self.options, priority=options.get("priority", self.options.priority)),
        )
        if is_async(transaction):
            return AsyncEnqueuer(self, transaction, request)
        return Enqueuer(self, transaction, request)

    @cached_property
    def signature(self) -> inspect.Signature:
        """The signature of the handler."""
        return inspect.signature(self.function)

    def build_payload(self, *args: P.args, **kwargs: P.kwargs) -> Mapping[str, Json]:
        """Map arguments to payload fields; InvalidArgument when the handler does not take them or they are not JSON."""
        try:
            bound = self.signature.bind(None, *args, **kwargs)
        except TypeError as error:
            name = self.handler.type
            raise InvalidArgument(f"the job type '{name}' cannot be called with these arguments: {error}") from None
        _, *fields = bound.arguments.items()
        return checked_json(dict(fields))


@dataclass(frozen=True)
class Enqueuer(Generic[P]):
    """Enqueues a job of one type on a sync connection."""

    job_type: JobType[P, Any]
    transaction: SyncTransaction
    request: JobRequest

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Creation[UUID]:
        """Enqueue the job: `Created(id)`, or `Existing(id)` for a repeated request; KeyReused for a different one."""
        payload = self.job_type.build_payload(*args, **kwargs)
        return enqueue_sync(self.transaction, replace(self.request, payload=payload))


@dataclass(frozen=True)
class AsyncEnqueuer(Generic[P]):
    """Enqueues a job of one type on an async connection."""

    job_type: JobType[P, Any]
    transaction: AsyncTransaction
    request: JobRequest

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Creation[UUID]]:
        """Enqueue the job; the coroutine is awaited. See `Enqueuer.enqueue`."""
        payload = self.job_type.build_payload(*args, **kwargs)
        return enqueue_async(self.transaction, replace(self.request, payload=payload))
