"""Job types whose handlers fail, overstay or are asked to stop. Here, so that a child process can import them."""

import asyncio
import os
import threading

import duly

app = duly.App()
STARTED = threading.Event()  # a handler that waits for GO_ON has begun
MAY_RETURN = threading.Event()
WAIT_SECONDS = 30.0
SECRET = "postgresql://anna:hunter2@db/shop is gone"  # noqa: S105 (a secret that must be masked)


def price_order(order: int) -> None:
    """Fail for a reason that another failure stands behind."""
    try:
        {}["sku"]
    except KeyError as missing:
        raise RuntimeError(f"could not price order {order}; {SECRET}") from missing


@app.job("price", backoff="none", max_attempts=2)
async def price(ctx: duly.Context, order: int = 7) -> None:
    """Fail with a cause."""
    price_order(order)


@app.job("price_plainly", backoff="none", max_attempts=1)
def price_plainly(ctx: duly.Context, order: int = 7) -> None:
    """The same as a plain function."""
    price_order(order)


@app.job("price_alone", backoff="none", max_attempts=1, isolate=True)
def price_alone(ctx: duly.Context, order: int = 7) -> None:
    """The same in a child process."""
    price_order(order)


@app.job("refused", backoff="none", max_attempts=1)
async def refused(ctx: duly.Context) -> None:
    """Fail with an exception of the standard library."""
    raise ConnectionError("refused")


@app.job("chatter", backoff="none", max_attempts=1)
async def chatter(ctx: duly.Context) -> None:
    """Fail with a message longer than the limit."""
    raise RuntimeError("å" * 200_000)


@app.job("raises", backoff="none", max_attempts=2)
async def raises(ctx: duly.Context, what: str) -> None:
    """Raise an outcome."""
    match what:
        case "done":
            raise duly.Done({"made": 1})
        case "later":
            raise duly.Later(3600)
        case "give_up":
            raise duly.GiveUp("CARD_DECLINED", "no money") from ValueError("because")
        case "failed":
            raise duly.Failed("NOT_NOW", "busy")
        case _:
            raise duly.Stopped


@app.job("raises_alone", backoff="none", max_attempts=1, isolate=True)
def raises_alone(ctx: duly.Context) -> None:
    """Raise an outcome in a child process."""
    raise duly.GiveUp("CARD_DECLINED", "no money")


def sleep_here() -> None:
    """Wait for longer than any timeout."""
    threading.Event().wait(WAIT_SECONDS)


@app.job("late", timeout="100ms", max_attempts=1)
async def late(ctx: duly.Context) -> None:
    """Overstay on the event loop."""
    await asyncio.Event().wait()


@app.job("late_plainly", timeout="100ms", max_attempts=1)
def late_plainly(ctx: duly.Context) -> None:
    """Overstay in a thread."""
    MAY_RETURN.wait(WAIT_SECONDS)


@app.job("late_politely", timeout="100ms", max_attempts=1)
def late_politely(ctx: duly.Context) -> object:
    """Overstay in a thread, and stop when asked to."""
    until_asked(ctx)
    return ctx.stopped()


@app.job("late_alone", timeout="1s", max_attempts=1, isolate=True)
def late_alone(ctx: duly.Context) -> None:
    """Overstay in a child process."""
    sleep_here()


@app.job("abort_alone", max_attempts=1, isolate=True)
def abort_alone(ctx: duly.Context) -> None:
    """Crash in a child process."""
    os.abort()


def until_asked(ctx: duly.Context) -> None:
    """Work until the handler is asked to stop."""
    STARTED.set()
    while not ctx.should_stop:
        threading.Event().wait(0.01)
    MAY_RETURN.wait(WAIT_SECONDS)


@app.job("reindex", max_attempts=3)
def reindex(ctx: duly.Context, then: str = "value") -> object:
    """A plain function that obeys the sign to stop, and ends as `then` says."""
    until_asked(ctx)
    match then:
        case "value":
            return 11
        case "done":
            return duly.Done(60)
        case "stopped":
            return ctx.stopped()
        case "raise_stopped":
            raise duly.Stopped
        case _:
            raise InterruptedError(then)


@app.job("reindex_async", max_attempts=3)
async def reindex_async(ctx: duly.Context, then: str = "value") -> object:
    """The same on the event loop, where it is cancelled."""
    STARTED.set()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        match then:
            case "value":
                return 11
            case "done":
                return duly.Done(60)
            case "stopped":
                return ctx.stopped()
            case _:
                raise InterruptedError(then) from None
    return None


@app.job("reindex_alone", max_attempts=3, isolate=True)
def reindex_alone(ctx: duly.Context, flag: str) -> None:
    """In a child process, which is killed."""
    with open(flag, "w") as file:  # noqa: PTH123
        file.write("began")
    sleep_here()


@app.job("stop_unasked", max_attempts=1)
async def stop_unasked(ctx: duly.Context) -> object:
    """Say that it was stopped, without having been asked to."""
    return ctx.stopped()
