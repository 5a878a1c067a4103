"""Times, lengths of time and numbers, as a sentence tells them."""

from datetime import datetime

__all__ = ["counted", "span", "when"]


def when(moment: datetime | None) -> str:
    """A moment to the second, with its zone."""
    assert moment, "only what is there is told"
    return f"{moment:%Y-%m-%d %H:%M:%S %Z}"


def span(seconds: float) -> str:
    """A length of time, of its two largest units."""
    rest = round(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def counted(number: int, one: str, many: str) -> str:
    """One or many."""
    return f"1 {one}" if number == 1 else f"{number} {many}"
