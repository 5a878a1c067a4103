"""`duly bench`: measurements that live in the checkout, beside the package, and are run in a process of their own."""

from collections.abc import Mapping
from pathlib import Path

from duly.cli.workshop import become, in_checkout
from duly.extras import require

__all__ = [
    "run_bench_all",
    "run_bench_ingest",
    "run_bench_ledger",
    "run_bench_ocr",
    "run_bench_posts",
    "run_bench_scheduler",
    "run_bench_verify",
]


def run_bench_all(rounds: int | None, only: str | None, extent: str | None, out: Path | None, as_json: bool) -> None:
    """Become the program that measures everything in turn, and writes figures, pictures and their page."""
    in_checkout()
    become("bench.figures", {"rounds": rounds, "only": only, "out": out}, as_json, [f"--{extent}"] if extent else [])


def run_bench_ledger(
    rounds: int, only: str | None, sides: str | None, sizes: Mapping[str, float], as_json: bool
) -> None:
    """Become the program that compares the ledger with its peers."""
    in_checkout()
    become("bench.ledger", {"rounds": rounds, "only": only, "sides": sides, **sizes}, as_json)


def run_bench_ingest(rounds: int, only: str | None, sizes: Mapping[str, float], as_json: bool) -> None:
    """Become the program that holds ingest against a bare program."""
    in_checkout()
    become("bench.ingest", {"rounds": rounds, "only": only, **sizes}, as_json)


def run_bench_ocr(options: Mapping[str, object], as_json: bool) -> None:
    """Become the program that reads screens and scores what was read."""
    in_checkout()
    require("ocr")
    become("bench.ocr", options, as_json)


def run_bench_posts(rounds: int, only: str | None, sizes: Mapping[str, float], as_json: bool) -> None:
    """Become the program that holds posts against a bare program."""
    in_checkout()
    become("bench.posts", {"rounds": rounds, "only": only, **sizes}, as_json)


def run_bench_scheduler(rounds: int, only: str | None, sizes: Mapping[str, float], as_json: bool) -> None:
    """Become the program that holds the scheduler against its own size, and the sender against a bare program."""
    in_checkout()
    become("bench.scheduler", {"rounds": rounds, "only": only, **sizes}, as_json)


def run_bench_verify(rounds: int, only: str | None, events: int, as_json: bool) -> None:
    """Become the program that measures what proving a large database takes."""
    in_checkout()
    become("bench.verify", {"rounds": rounds, "only": only, "events": events}, as_json)
