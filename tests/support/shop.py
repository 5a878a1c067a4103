"""A small shop's job types: what tests give to a worker. Each lives here, so that a child process can import it."""

import asyncio
import os
import threading
from typing import Any

from psycopg import AsyncConnection, Connection

import duly

app = duly.App()
BOOK = "insert into shop.book (job, who, org) values (%s, current_user, current_setting('app.current_org_id'))"
MEGABYTE = 1024 * 1024


class Oops(Exception):
    """Something went wrong on purpose."""


async def write(tx: AsyncConnection[Any], ctx: duly.Context) -> None:
    """A line in the shop's own book."""
    await tx.execute(BOOK, [ctx.job_id])


def write_plainly(tx: Connection[Any], ctx: duly.Context) -> None:
    """The same, without await."""
    tx.execute(BOOK, [ctx.job_id])


@app.job("greet", concurrency=2)
async def greet(ctx: duly.Context, name: str = "you") -> str:
    """Say hello."""
    return f"hello {name}"


@app.job("bill", backoff="none", max_attempts=2)
async def bill(ctx: duly.Context, then: str = "") -> str:
    """Write a line and end the job with it, or fail at the place that `then` names."""
    async with ctx.transaction() as tx:
        await write(tx, ctx)
        if then == "inside":
            raise Oops(then)
        if then == "savepoint":
            try:
                async with tx.transaction():
                    await ctx.complete(tx, "undone")
                    raise Oops(then)
            except Oops:
                return "returned"
        await ctx.complete(tx, {"then": then})
        if then == "twice":
            await ctx.complete(tx, "again")
    if then == "after":
        raise Oops(then)
    return "not this"


@app.job("bill_plainly", backoff="none", max_attempts=2)
def bill_plainly(ctx: duly.Context, then: str = "") -> str:
    """The same as a plain function."""
    with ctx.transaction() as tx:
        write_plainly(tx, ctx)
        if then == "inside":
            raise Oops(then)
        if then == "savepoint":
            try:
                with tx.transaction():
                    ctx.complete(tx, "undone")
                    raise Oops(then)
            except Oops:
                return "returned"
        ctx.complete(tx, {"then": then})
        if then == "twice":
            ctx.complete(tx, "again")
    if then == "after":
        raise Oops(then)
    return "not this"


@app.job("order")
async def order(ctx: duly.Context, name: str) -> None:
    """Ask for another job in the same transaction."""
    async with ctx.transaction() as tx:
        await greet.on(tx, org=ctx.org_id, key=name).enqueue(name)
        await ctx.complete(tx)


@app.job("climb")
async def climb(ctx: duly.Context, steps: int) -> str:
    """Say how far it is, in one stage."""
    for step in range(1, steps + 1):
        await ctx.progress("climbing", step * 100 // steps)
    return "at the top"


@app.job("climb_plainly")
def climb_plainly(ctx: duly.Context) -> str:
    """Say how far it is, from a thread."""
    ctx.progress("packing", 10)
    ctx.progress("walking")
    return "there"


@app.job("alone", isolate=True, max_attempts=2, backoff="none", timeout="3s", memory_bytes=256 * MEGABYTE)
def alone(ctx: duly.Context, how: str) -> str:
    """End badly, in a process of its own."""
    match how:
        case "exit":
            os._exit(3)
        case "abort":
            os.abort()
        case "memory":
            return str(len(bytearray(1024 * MEGABYTE)))
        case "loop":
            while True:
                pass
        case "transaction":
            ctx.transaction()
        case _:
            pass
    return f"alone {how}"


@app.job("slow", timeout="200ms", max_attempts=1)
async def slow(ctx: duly.Context) -> None:
    """Take longer than it may."""
    await asyncio.Event().wait()


@app.job("patient")
async def patient(ctx: duly.Context) -> None:
    """Work until it is asked to stop."""
    await ctx.progress("waiting")
    await asyncio.Event().wait()


@app.job("ignores_stop")
async def ignores_stop(ctx: duly.Context) -> str:
    """Wait until the job is lost, without listening, then try to write."""
    await ctx.progress("waiting")
    while not ctx.should_stop:
        try:
            await asyncio.to_thread(threading.Event().wait, 0.01)
        except asyncio.CancelledError:
            break
    async with ctx.transaction() as tx:
        await write(tx, ctx)
    return "wrote"
