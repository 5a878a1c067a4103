"""`duly bench`: measurements that live in the checkout, beside the package, and are run in a process of their own."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from duly.cli.workshop import become, in_checkout
from duly.extras import install

__all__ = ["run_bench"]


def run_bench(
    name: str, options: Mapping[str, object], as_json: bool, flags: Sequence[str] = (), *, needs: str | None = None
) -> NoReturn:
    """Become one of the programs in bench/, with the extra that it needs."""
    in_checkout()
    if needs:
        install(needs)
    become(f"bench.{name}", options, as_json, flags)
