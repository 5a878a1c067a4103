"""The one place where domains, channels, worker and doors meet: the kinds of work, and how each is built."""

from collections.abc import Callable, Mapping, Sequence

from duly.errors import InvalidArgument
from duly.kernel.work import Work
from duly.settings import Settings

__all__ = ["WORKS", "works_of"]

WORKS: Mapping[str, Callable[[Settings], Work]] = {}  # each domain adds its own


def works_of(settings: Settings, only: Sequence[str] | None = None) -> list[Work]:
    """The kinds of work a worker takes: all there are, or those it was told."""
    unknown = [name for name in only or () if name not in WORKS]
    if unknown:
        there_are = ", ".join(WORKS) or "none yet"
        raise InvalidArgument(f"--only {','.join(only or ())}: there is no work '{unknown[0]}'; there are: {there_are}")
    return [build(settings) for name, build in WORKS.items() if only is None or name in only]
