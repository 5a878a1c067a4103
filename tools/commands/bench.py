"""`duly bench`: benchmarks that live in the checkout, beside the package, and run in a process of their own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from duly.cli.options import Json, new_group
from duly.extras import install
from tools.commands.development import enter_checkout, exec_module

app = new_group("Reproducible benchmarks, each on a private server.")


@app.command()
def ledger(
    rounds: Annotated[int, typer.Option(min=1, help="Number of measurements; the contestants take turns.")] = 7,
    only: Annotated[
        str | None,
        typer.Option(
            help="Only these, separated by commas: drain, drain2, bulk, single, single16, pickup, waiting, finished, "
            "finished10, snapshot, paths (all but success), steps (WAL, buffers, statements). Default: all."
        ),
    ] = None,
    systems: Annotated[
        str | None,
        typer.Option(
            help="Only these, separated by commas: duly, pgqueuer, procrastinate, dbos, oban (needs Python 3.12 and "
            "a C compiler). Default: all."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Jobs to drain, or to enqueue in batches.")] = 20_000,
    few_jobs: Annotated[
        int, typer.Option(min=1, help="The same for procrastinate and DBOS, which are slower.")
    ] = 2_000,
    path_jobs: Annotated[int, typer.Option(min=1, help="Jobs that fail, are retried, released or canceled.")] = 5_000,
    singles: Annotated[int, typer.Option(min=1, help="Jobs to enqueue one by one.")] = 2_000,
    pickups: Annotated[int, typer.Option(min=2, help="Jobs for an idle worker to pick up.")] = 2_000,
    least_gap_ms: Annotated[float, typer.Option(min=0, help="Shortest gap between two of these.")] = 5.0,
    max_gap_ms: Annotated[float, typer.Option(min=0, help="Longest gap between two of these.")] = 25.0,
    waiting_rows: Annotated[int, typer.Option(min=1, help="Waiting jobs in a large table.")] = 1_000_000,
    finished_rows: Annotated[int, typer.Option(min=1, help="Finished jobs in a large table.")] = 1_000_000,
    many_finished_rows: Annotated[int, typer.Option(min=1, help="Finished jobs in a larger one.")] = 10_000_000,
    snapshot_jobs: Annotated[int, typer.Option(min=1, help="Jobs to drain while a snapshot is open.")] = 300_000,
    warm_waves: Annotated[int, typer.Option(min=1, help="Small batches of jobs that warm up the server.")] = 30,
    as_json: Json = False,
) -> None:
    """Compare jobs with their peers on one private, durable server.

    A round in which a plan of either side flipped is listed, and left out of medians.

    Example: duly bench ledger --rounds 3 --only drain,bulk
    """
    sizes = {
        "jobs": jobs,
        "few-jobs": few_jobs,
        "path-jobs": path_jobs,
        "singles": singles,
        "pickups": pickups,
        "least-gap-ms": least_gap_ms,
        "max-gap-ms": max_gap_ms,
        "waiting-rows": waiting_rows,
        "finished-rows": finished_rows,
        "many-finished-rows": many_finished_rows,
        "snapshot-jobs": snapshot_jobs,
        "warm-waves": warm_waves,
    }
    run_bench("ledger", {"rounds": rounds, "only": only, "systems": systems, **sizes}, as_json)


@app.command()
def posts(
    rounds: Annotated[int, typer.Option(min=1, help="Number of measurements; the contestants take turns.")] = 3,
    only: Annotated[
        str | None, typer.Option(help="Only these, separated by commas: release, intents, growth. Default: all.")
    ] = None,
    posts: Annotated[
        int, typer.Option(min=1, help="Posts due in the same minute; a fifth of them where posts are stored already.")
    ] = 100_000,
    stored: Annotated[
        int, typer.Option(min=1, help="Old posts in the large table; the small one has a hundredth.")
    ] = 1_000_000,
    intents: Annotated[int, typer.Option(min=2, help="Posts to create by HTTP.")] = 2_000,
    clients: Annotated[int, typer.Option(min=1, help="Concurrent clients.")] = 8,
    minute_seconds: Annotated[
        float, typer.Option(min=0, help="Length of the minute in which posts become due.")
    ] = 60.0,
    warm_waves: Annotated[
        int, typer.Option(min=1, help="Small batches of posts, and requests per client, that warm up the server.")
    ] = 20,
    as_json: Json = False,
) -> None:
    """Compare posts with a minimal program that does the same, on one private, durable server.

    Example: duly bench posts --rounds 1 --only release,intents --posts 20000
    """
    sizes = {
        "posts": posts,
        "stored": stored,
        "intents": intents,
        "clients": clients,
        "minute-seconds": minute_seconds,
        "warm-waves": warm_waves,
    }
    run_bench("posts", {"rounds": rounds, "only": only, **sizes}, as_json)


@app.command()
def ingest(
    rounds: Annotated[int, typer.Option(min=1, help="Number of measurements; the contestants take turns.")] = 3,
    only: Annotated[
        str | None, typer.Option(help="Only these, separated by commas: drain, growth. Default: all.")
    ] = None,
    sessions: Annotated[int, typer.Option(min=1, help="Sessions that are due at once.")] = 20_000,
    days: Annotated[
        int, typer.Option(min=2, help="Old days in the large table; the small one has a hundredth.")
    ] = 100_000,
    warm_waves: Annotated[int, typer.Option(min=1, help="Small batches of sessions that warm up the server.")] = 20,
    as_json: Json = False,
) -> None:
    """Compare ingest with a minimal program that writes the same rows, on one private, durable server.

    Example: duly bench ingest --rounds 1 --only drain --sessions 5000
    """
    sizes = {"sessions": sessions, "days": days, "warm-waves": warm_waves}
    run_bench("ingest", {"rounds": rounds, "only": only, **sizes}, as_json)


@app.command()
def scheduler(
    rounds: Annotated[int, typer.Option(min=1, help="Number of measurements; the contestants take turns.")] = 3,
    only: Annotated[
        str | None, typer.Option(help="Only these, separated by commas: pass, due, send. Default: all.")
    ] = None,
    schedules: Annotated[
        int, typer.Option(min=100, help="Active schedules; also measured with a tenth and a hundredth of them.")
    ] = 1_000_000,
    due: Annotated[int, typer.Option(min=1, help="How many of them are due.")] = 1_000,
    runs: Annotated[
        int, typer.Option(min=100, help="Past runs in the large table; the small one has a hundredth.")
    ] = 10_000_000,
    messages: Annotated[int, typer.Option(min=1, help="Messages to claim and settle.")] = 20_000,
    as_json: Json = False,
) -> None:
    """Measure a scheduler pass by number of schedules, and compare the sender with a minimal program.

    Example: duly bench scheduler --rounds 1 --only pass --schedules 100000
    """
    sizes = {"schedules": schedules, "due": due, "runs": runs, "messages": messages}
    run_bench("scheduler", {"rounds": rounds, "only": only, **sizes}, as_json)


@app.command()
def verify(
    rounds: Annotated[int, typer.Option(min=1, help="Number of measurements.")] = 1,
    only: Annotated[str | None, typer.Option(help="Only these, separated by commas: check. Default: all.")] = None,
    events: Annotated[int, typer.Option(min=1, help="Events in the logs of the database to verify.")] = 10_000_000,
    as_json: Json = False,
) -> None:
    """Measure how long `duly verify` takes over a large history.

    Example: duly bench verify --events 1000000
    """
    run_bench("verify", {"rounds": rounds, "only": only, "events": events}, as_json)


@app.command()
def ocr(
    first: Annotated[
        int, typer.Option(min=0, help="The first seed; from 1000 on, no word was seen in development.")
    ] = 1000,
    screens: Annotated[int, typer.Option(min=0, help="Screens degraded as messengers do it.")] = 20,
    hard: Annotated[int, typer.Option(min=0, help="Screens degraded as photographers do it.")] = 10,
    images: Annotated[
        Path | None,
        typer.Option(help="Read this directory of images with a truth.json instead.", exists=True, file_okay=False),
    ] = None,
    raw: Annotated[
        Path | None, typer.Option(help="Store the recognised text here; images stored before are not read again.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure OCR on unseen screens: how many shifts are completely right, time, memory and losses.

    Exit 1, with the failed goals, unless 97 % of shifts are right (95 % without Tesseract),
    99 % of å ä ö are kept, and the times of every shift are read.
    Uses OCR_ENGINE, OCR_LANG and TESSDATA_PREFIX, as a worker does.

    Example: duly bench ocr --first 2000 --screens 10 --hard 5
    """
    options = {"first": first, "screens": screens, "hard": hard, "images": images, "raw": raw}
    run_bench("ocr", options, as_json, needs="ocr")


@app.command("all")
def all_benchmarks(
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Number of measurements. Default: 3, and 1 of verify.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Only these, separated by commas: ledger, ingest, posts, scheduler, verify. Default: all."),
    ] = None,
    is_quick: Annotated[
        bool, typer.Option("--quick", help="Run with tiny sizes, as a smoke test; the figures mean nothing.")
    ] = False,
    is_full: Annotated[
        bool, typer.Option("--full", help="Use the full sizes, which takes hours. Default: about a tenth.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Directory to write to. Default: docs/figures.")] = None,
    as_json: Json = False,
) -> None:
    """Run every benchmark except ocr, and write raw figures, charts and their page.

    Overwrites only files whose first line says that they were generated.

    Example: duly bench all --only ledger,posts --rounds 3
    """
    if is_quick and is_full:
        raise typer.BadParameter("choose one of --quick and --full")
    extent = ["--quick"] if is_quick else ["--full"] if is_full else []
    run_bench("figures", {"rounds": rounds, "only": only, "out": out}, as_json, extent)


def run_bench(
    name: str, options: Mapping[str, object], as_json: bool, flags: Sequence[str] = (), *, needs: str | None = None
) -> NoReturn:
    """Replace this process by a program in tools/bench/, after installing the extra that it needs."""
    enter_checkout()
    if needs:
        install(needs)
    exec_module(f"tools.bench.{name}", options, as_json, flags)
