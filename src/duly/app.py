"""The SDK: declare a job type once, enqueue jobs of it inside your own transaction.

    app = App()

    @app.job("thumbnail", queue="images", timeout="2m")
    async def thumbnail(ctx: Context, image_id: str, size: int = 256) -> dict[str, str]: ...

    with engine.begin() as tx:                                  # nothing exists unless you commit
        thumbnail.on(tx, key="order:42").enqueue(image_id="a1")
        thumbnail.on(tx).enqueue_many({"image_id": image_id} for image_id in image_ids)
        app.enqueue("report", {"year": 2030}, tx)               # a type that another program declares

On an async connection the same call is awaited. Wrong arguments are type errors, and refused again at run time: a
payload that its handler does not accept is never enqueued.
"""

import inspect
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Concatenate, Generic, Never, ParamSpec, TypedDict, TypeVar, Unpack, overload
from uuid import UUID

from duly.backoff import Backoff, BackoffPolicy
from duly.bounds import MAX_CONCURRENCY
from duly.canonical_json import Json, checked_json
from duly.db.drivers import (
    AnyTransaction,
    AsyncTransaction,
    DriverStatement,
    SyncTransaction,
    fetch,
    fetch_async,
    is_async,
)
from duly.errors import InvalidArgument
from duly.jobs.context import Context
from duly.jobs.duration import Duration
from duly.jobs.enqueue import (
    MANY_JOBS,
    ONE_JOB,
    build_statement,
    creation_from_columns,
    declared_constants,
    encode_batches,
    encode_json,
    encode_options,
)
from duly.jobs.failures import OnFailure
from duly.jobs.model import DEFAULT_ORG, JobOptions
from duly.jobs.validation import (
    check_first_parameter,
    check_integer,
    check_name,
    check_options,
    parse_options,
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
    priority: int  # higher first
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

    @overload
    def enqueue(
        self, type: str, payload: Mapping[str, Any], transaction: SyncTransaction, **options: Unpack[EnqueueOptions]
    ) -> Creation[UUID]: ...
    @overload
    def enqueue(
        self, type: str, payload: Mapping[str, Any], transaction: AsyncTransaction, **options: Unpack[EnqueueOptions]
    ) -> Coroutine[Any, Any, Creation[UUID]]: ...
    def enqueue(
        self,
        type: str,  # noqa: A002
        payload: Mapping[str, Any],
        transaction: AnyTransaction,
        **options: Unpack[EnqueueOptions],
    ) -> Creation[UUID] | Coroutine[Any, Any, Creation[UUID]]:
        """Enqueue a job of a type by its name: one of this app, or one that another program declares.

        Of this app's types the payload is checked; of others it is any JSON object, and their workers check it.
        """
        declared = self.types.get(type)
        if declared is not None:
            return declared.on(transaction, **options).enqueue(**payload)
        check_name(f"job type {type!r}", type)
        check_options(f"enqueue('{type}')", options, ENQUEUE_OPTIONS, {})
        parameters = {"org": str(self.org), "type": type} | encode_options(f"enqueue('{type}')", options)
        parameters["payload"] = encode_json(checked_json(dict(payload)))
        statement = build_statement(ONE_JOB, tuple(parameters), {})
        if is_async(transaction):
            return fetch_creation(transaction, statement, parameters)
        return creation_from_columns(fetch(transaction, statement, parameters)[0])

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
    statements: dict[tuple[str, ...], DriverStatement] = field(
        default_factory=dict[tuple[str, ...], DriverStatement], compare=False, repr=False
    )

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
        parameters = encode_options(f"{name}.on()", options) if options else {}
        if is_async(transaction):
            return AsyncEnqueuer(self, transaction, parameters)
        return Enqueuer(self, transaction, parameters)

    @cached_property
    def signature(self) -> inspect.Signature:
        """The signature of the handler."""
        return inspect.signature(self.function)

    def build_payload(self, *args: P.args, **kwargs: P.kwargs) -> Mapping[str, Json]:
        """Map arguments to payload fields; InvalidArgument when the handler does not take them or they are not JSON."""
        return self.payload_from(args, kwargs)

    def payload_from(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Json]:
        """Map arguments to payload fields."""
        try:
            bound = self.signature.bind(None, *args, **kwargs)
        except TypeError as error:
            name = self.handler.type
            raise InvalidArgument(f"the job type '{name}' cannot be called with these arguments: {error}") from None
        _, *fields = bound.arguments.items()
        return checked_json(dict(fields))

    def statement(self, text: str, parameters: Mapping[str, str | None]) -> DriverStatement:
        """Return the statement for these parameters, which is built once."""
        key = (text, *parameters)
        if key not in self.statements:
            constants = dict(declared_constants(self.app.org, self.handler.type, self.handler.queue, self.options))
            if text is MANY_JOBS:
                del constants["priority"]  # which is a list there
            self.statements[key] = build_statement(text, tuple(parameters), constants)
        return self.statements[key]

    def build_one(
        self, options: Mapping[str, str | None], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[DriverStatement, Mapping[str, str | None]]:
        """Build the statement and the parameters of one job."""
        parameters = {**options, "payload": encode_json(self.payload_from(args, kwargs))}
        return self.statement(ONE_JOB, parameters), parameters

    def build_many(
        self,
        options: Mapping[str, str | None],
        payloads: Iterable[Mapping[str, Any]],
        keys: Iterable[str | None] | None,
        run_ats: Iterable[datetime] | None,
    ) -> Iterator[tuple[DriverStatement, Mapping[str, str | None]]]:
        """Build the statement and the parameters of each batch of many jobs."""
        priority = int(options.get("priority") or self.options.priority)
        for name, instead in SINGLE_ONLY.items():
            if name in options:
                raise InvalidArgument(f"{name}= of {self.handler.type}.on() is of one job; {instead}")
        common = {name: value for name, value in options.items() if name != "priority"}
        encoded = (encode_json(self.payload_from((), payload)) for payload in payloads)
        for batch in encode_batches(f"{self.handler.type}.enqueue_many()", encoded, keys, run_ats, priority):
            parameters = common | batch
            yield self.statement(MANY_JOBS, parameters), parameters


SINGLE_ONLY = {"key": "pass enqueue_many(payloads, keys=[...])", "run_at": "pass enqueue_many(payloads, run_ats=[...])"}


@dataclass(frozen=True)
class Enqueuer(Generic[P]):
    """Enqueues jobs of one type on a sync connection."""

    job_type: JobType[P, Any]
    transaction: SyncTransaction
    options: Mapping[str, str | None]

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Creation[UUID]:
        """Enqueue the job: `Created(id)`, or `Existing(id)` for a repeated request; KeyReused for a different one."""
        statement, parameters = self.job_type.build_one(self.options, args, kwargs)
        return creation_from_columns(fetch(self.transaction, statement, parameters)[0])

    def enqueue_many(
        self,
        payloads: Iterable[Mapping[str, Any]],
        *,
        keys: Iterable[str | None] | None = None,
        run_ats: Iterable[datetime] | None = None,
    ) -> list[Creation[UUID]]:
        """Enqueue a job for each of these arguments, by name; the answers come in the same order.

        At most 10,000 are enqueued by one statement, and any number in the same transaction.
        """
        return [
            creation_from_columns(columns)
            for statement, parameters in self.job_type.build_many(self.options, payloads, keys, run_ats)
            for columns in fetch(self.transaction, statement, parameters)
        ]


@dataclass(frozen=True)
class AsyncEnqueuer(Generic[P]):
    """Enqueues jobs of one type on an async connection."""

    job_type: JobType[P, Any]
    transaction: AsyncTransaction
    options: Mapping[str, str | None]

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Creation[UUID]]:
        """Enqueue the job; the coroutine is awaited. See `Enqueuer.enqueue`."""
        statement, parameters = self.job_type.build_one(self.options, args, kwargs)
        return fetch_creation(self.transaction, statement, parameters)

    async def enqueue_many(
        self,
        payloads: Iterable[Mapping[str, Any]],
        *,
        keys: Iterable[str | None] | None = None,
        run_ats: Iterable[datetime] | None = None,
    ) -> list[Creation[UUID]]:
        """Enqueue a job for each of these arguments, by name. See `Enqueuer.enqueue_many`."""
        return [
            creation_from_columns(columns)
            for statement, parameters in self.job_type.build_many(self.options, payloads, keys, run_ats)
            for columns in await fetch_async(self.transaction, statement, parameters)
        ]


async def fetch_creation(
    transaction: AsyncTransaction, statement: DriverStatement, parameters: Mapping[str, str | None]
) -> Creation[UUID]:
    """Enqueue one job on an async connection."""
    return creation_from_columns((await fetch_async(transaction, statement, parameters))[0])
