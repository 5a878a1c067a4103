"""What `duly bench` offers."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["bench_app"]

bench_app = typer.Typer(help="Figures anyone can reproduce, on a server of their own.", no_args_is_help=True)


@bench_app.callback()
def bench_command() -> None:
    """Figures anyone can reproduce, on a server of their own."""


Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]


@bench_app.command()
def ledger(
    rounds: Annotated[int, typer.Option(min=1, help="How often everything is measured; the sides take turns.")] = 7,
    only: Annotated[
        str | None,
        typer.Option(
            help="Only these, separated by commas: drain, drain2, bulk, single, single16, pickup, backlog, finished, "
            "snapshot. Default: all."
        ),
    ] = None,
    sides: Annotated[
        str | None,
        typer.Option(help="Only these, separated by commas: duly, pgqueuer, procrastinate. Default: all."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Jobs that are drained, or enqueued in batches.")] = 20_000,
    few_jobs: Annotated[int, typer.Option(min=1, help="The same for procrastinate, which is slow.")] = 2_000,
    singles: Annotated[int, typer.Option(min=1, help="Jobs that are enqueued one by one.")] = 2_000,
    pickups: Annotated[int, typer.Option(min=2, help="Jobs that an idle worker picks up.")] = 2_000,
    least_gap_ms: Annotated[float, typer.Option(min=0, help="The shortest gap between two of these.")] = 5.0,
    max_gap_ms: Annotated[float, typer.Option(min=0, help="The longest gap between two of these.")] = 25.0,
    rows: Annotated[int, typer.Option(min=1, help="Rows of a full table.")] = 1_000_000,
    snapshot_jobs: Annotated[
        int, typer.Option(min=1, help="Jobs that are drained while a snapshot is held.")
    ] = 300_000,
    warm_waves: Annotated[int, typer.Option(min=1, help="Small waves of jobs before anything is measured.")] = 30,
    as_json: Json = False,
) -> None:
    """Compare the ledger with procrastinate and pgqueuer: on one private, durable server, in turns.

    Example: duly bench ledger --rounds 3 --only drain,bulk
    """
    from duly.cli.bench import run_bench

    sizes = {
        "jobs": jobs,
        "few-jobs": few_jobs,
        "singles": singles,
        "pickups": pickups,
        "least-gap-ms": least_gap_ms,
        "most-gap-ms": max_gap_ms,
        "rows": rows,
        "snapshot-jobs": snapshot_jobs,
        "warm-waves": warm_waves,
    }
    run_bench("ledger", {"rounds": rounds, "only": only, "sides": sides, **sizes}, as_json)


@bench_app.command()
def posts(
    rounds: Annotated[int, typer.Option(min=1, help="How often everything is measured; the sides take turns.")] = 3,
    only: Annotated[
        str | None, typer.Option(help="Only these, separated by commas: release, intents, growth. Default: all.")
    ] = None,
    posts: Annotated[
        int, typer.Option(min=1, help="Posts that are due in the same minute; a fifth of them beside stored ones.")
    ] = 100_000,
    stored: Annotated[
        int, typer.Option(min=1, help="Posts of long ago, where there are many; a hundredth of it where few.")
    ] = 1_000_000,
    intents: Annotated[int, typer.Option(min=2, help="Posts that are asked for by HTTP.")] = 2_000,
    clients: Annotated[int, typer.Option(min=1, help="How many ask at once.")] = 8,
    minute_seconds: Annotated[
        float, typer.Option(min=0, help="How long the minute is, where posts are due all through it.")
    ] = 60.0,
    warm_waves: Annotated[
        int, typer.Option(min=1, help="Small waves of posts, and requests of each client, before anything is measured.")
    ] = 20,
    as_json: Json = False,
) -> None:
    """Hold posts against a bare program that does the same: on one private, durable server, in turns.

    Example: duly bench posts --rounds 1 --only release,intents --posts 20000
    """
    from duly.cli.bench import run_bench

    sizes = {
        "posts": posts,
        "stored": stored,
        "intents": intents,
        "clients": clients,
        "minute-seconds": minute_seconds,
        "warm-waves": warm_waves,
    }
    run_bench("posts", {"rounds": rounds, "only": only, **sizes}, as_json)


@bench_app.command()
def ingest(
    rounds: Annotated[int, typer.Option(min=1, help="How often everything is measured; the sides take turns.")] = 3,
    only: Annotated[
        str | None, typer.Option(help="Only these, separated by commas: drain, growth. Default: all.")
    ] = None,
    sessions: Annotated[int, typer.Option(min=1, help="Sessions that all wait at once.")] = 20_000,
    days: Annotated[
        int, typer.Option(min=2, help="Days of long ago, where there are many; a hundredth of it where few.")
    ] = 100_000,
    warm_waves: Annotated[int, typer.Option(min=1, help="Small waves of sessions before anything is measured.")] = 20,
    as_json: Json = False,
) -> None:
    """Hold ingest against a bare program that writes the same rows: on one private, durable server, in turns.

    Example: duly bench ingest --rounds 1 --only drain --sessions 5000
    """
    from duly.cli.bench import run_bench

    sizes = {"sessions": sessions, "days": days, "warm-waves": warm_waves}
    run_bench("ingest", {"rounds": rounds, "only": only, **sizes}, as_json)


@bench_app.command()
def scheduler(
    rounds: Annotated[int, typer.Option(min=1, help="How often everything is measured; the sides take turns.")] = 3,
    only: Annotated[
        str | None, typer.Option(help="Only these, separated by commas: pass, due, send. Default: all.")
    ] = None,
    schedules: Annotated[
        int, typer.Option(min=100, help="Active schedules, where there are many; a tenth and a hundredth besides.")
    ] = 1_000_000,
    due: Annotated[int, typer.Option(min=1, help="How many of them are due, however many there are.")] = 1_000,
    runs: Annotated[
        int, typer.Option(min=100, help="Runs of the past, where there are many; a hundredth of it where few.")
    ] = 10_000_000,
    messages: Annotated[int, typer.Option(min=1, help="Messages that are held and settled.")] = 20_000,
    as_json: Json = False,
) -> None:
    """Hold a pass of the scheduler against the number of schedules, and the sender against a bare program.

    Example: duly bench scheduler --rounds 1 --only pass --schedules 100000
    """
    from duly.cli.bench import run_bench

    sizes = {"schedules": schedules, "due": due, "runs": runs, "messages": messages}
    run_bench("scheduler", {"rounds": rounds, "only": only, **sizes}, as_json)


@bench_app.command()
def verify(
    rounds: Annotated[int, typer.Option(min=1, help="How often everything is measured.")] = 1,
    only: Annotated[str | None, typer.Option(help="Only these, separated by commas: check. Default: all.")] = None,
    events: Annotated[
        int, typer.Option(min=1, help="Events in the logs of the database that is looked at.")
    ] = 10_000_000,
    as_json: Json = False,
) -> None:
    """Measure how long `duly verify` takes over the histories of all domains.

    Example: duly bench verify --events 1000000
    """
    from duly.cli.bench import run_bench

    run_bench("verify", {"rounds": rounds, "only": only, "events": events}, as_json)


@bench_app.command()
def ocr(
    first: Annotated[int, typer.Option(min=0, help="The first seed; from 1000 on words are unseen.")] = 1000,
    screens: Annotated[int, typer.Option(min=0, help="Screens that are spoiled as messengers do it.")] = 20,
    hard: Annotated[int, typer.Option(min=0, help="Screens that are spoiled as people do it.")] = 10,
    images: Annotated[
        Path | None,
        typer.Option(help="Instead: a directory of images with a truth.json.", exists=True, file_okay=False),
    ] = None,
    raw: Annotated[
        Path | None, typer.Option(help="Write down what is read; what is there already is not read again.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read screens that were never seen, and say how many shifts are completely right, what it costs, and what is lost.

    Exit 1, naming what was missed, unless 97 % are right (95 % without Tesseract beside),
    99 % of å ä ö are kept, and the times of every shift are read.
    OCR_ENGINE, OCR_LANG and TESSDATA_PREFIX count, as for a worker.

    Example: duly bench ocr --first 2000 --screens 10 --hard 5
    """
    from duly.cli.bench import run_bench

    options = {"first": first, "screens": screens, "hard": hard, "images": images, "raw": raw}
    run_bench("ocr", options, as_json, needs="ocr")


@bench_app.command("all")
def all_benchmarks(
    rounds: Annotated[
        int | None, typer.Option(min=1, help="How often everything is measured. Default: 3, verify once.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Only these, separated by commas: ledger, ingest, posts, scheduler, verify. Default: all."),
    ] = None,
    is_quick: Annotated[
        bool, typer.Option("--quick", help="Hardly anything of everything: does it run? The figures mean nothing.")
    ] = False,
    is_full: Annotated[
        bool, typer.Option("--full", help="Every benchmark's own sizes, which takes hours; else about a tenth of them.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Where to write. Default: docs/figures.")] = None,
    as_json: Json = False,
) -> None:
    """Run every benchmark but ocr in turn, and write raw figures, pictures and their page.

    Only files whose first line says that they were generated are written over.

    Example: duly bench all --only ledger,posts --rounds 3
    """
    from duly.cli.bench import run_bench

    if is_quick and is_full:
        raise typer.BadParameter("choose one of --quick and --full")
    extent = ["--quick"] if is_quick else ["--full"] if is_full else []
    run_bench("figures", {"rounds": rounds, "only": only, "out": out}, as_json, extent)
