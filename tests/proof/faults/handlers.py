"""What jobs do in a world of faults: behave, and misbehave. They live here, so that a child process can import them."""

import ctypes
import os
import threading
import time

import duly
from tests.support.processes import pause

MEGABYTE = 1024 * 1024
BOOK = "insert into witness.effect (job) values (%s)"
app = duly.App()


@app.job("book")
async def book(ctx: duly.Context, seconds: float = 0.0) -> str:
    """Have an effect in the database, together with the end of the job."""
    await pause(seconds)
    async with ctx.transaction() as tx:
        await tx.execute(BOOK, [ctx.job_id])
        await ctx.complete(tx, "booked")
    return "booked"


@app.job("nap")
async def nap(ctx: duly.Context, seconds: float = 0.0) -> str:
    """Take a while."""
    await pause(seconds)
    return "rested"


@app.job("thread")
def in_a_thread(ctx: duly.Context, seconds: float = 0.0) -> str:
    """Take a while in a thread."""
    threading.Event().wait(seconds)
    return "rested"


@app.job("stumble")
async def stumble(ctx: duly.Context) -> str:
    """Fail the first time."""
    if ctx.attempt == 0:
        raise ValueError("stumbled")
    return "got up"


@app.job("burn")
async def burn(ctx: duly.Context, seconds: float = 0.5) -> str:
    """Hold the handlers' loop, and the interpreter's lock most of the time: the very mistake."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))
    return "burnt"


@app.job("alone", isolate=True, timeout="2s", memory_bytes=256 * MEGABYTE)
def alone(ctx: duly.Context, how: str) -> str:
    """End badly, in a process of its own."""
    match how:
        case "exit":
            os._exit(3)
        case "abort":
            os.abort()
        case "segfault":
            ctypes.string_at(0)
        case "memory":
            return str(len(bytearray(1024 * MEGABYTE)))
        case "loop":
            while True:
                pass
        case _:
            pass
    return f"alone {how}"
