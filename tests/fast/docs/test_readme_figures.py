"""The figures that README quotes are those of the files it leads to."""

import json
import re
from typing import Any

from duly.launcher import ROOT
from duly.verify import INVARIANTS
from tests.support.golden import check_golden

FIGURES = ROOT / "docs" / "figures"
README = ROOT / "README.md"
BEGIN, END = "<!-- figures: held against docs/figures by a test -->\n", "<!-- end of figures -->\n"


def test_the_readme_quotes_what_was_measured() -> None:
    before, _, rest = README.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = "".join(f"- {line}\n" for line in (faults(), invariants(), guards(), drain()))
    check_golden(README, before + BEGIN + lines + END + after)


def faults() -> str:
    """What was survived."""
    told: dict[str, Any] = json.loads((FIGURES / "chaos.data.json").read_text())
    totals: dict[str, int] = told["totals"]
    lost = sum(totals[f"commits of {whose} whose answer was lost"] for whose in ("clients", "workers"))
    return (
        f"**{totals['workers killed']:,}** workers and **{totals['postmaster kills']}** servers killed,"
        f" **{lost:,}** answers to commits lost,"
        f" in {told['seconds'] / 60:.0f} minutes of faults: "
        f"**{len(told['violations'])}** violations ([chaos.md](docs/figures/chaos.md))."
    )


def invariants() -> str:
    """What a whole database is held against."""
    return f"**{len(INVARIANTS)}** invariants that `./duly verify` asks ([verify.md](docs/verify.md))."


def guards() -> str:
    """What was removed, and noticed."""
    found = re.search(r"\| \*\*all\*\* \| \*\*(\d+)\*\* \| \*\*(\d+)\*\* \|", (FIGURES / "guards.md").read_text())
    assert found
    return f"**{found[2]}** of {found[1]} guards go red when they are removed ([guards.md](docs/figures/guards.md))."


def drain() -> str:
    """How fast jobs are done beside peers, and how far to trust it: as the page says that was measured with care."""
    page = (FIGURES / "ledger.md").read_text()
    rounds = re.search(r"\| median of (\d+) rounds", page)
    assert rounds
    where = " on a quiet machine" if "nothing else running" in page else ""
    one, other, two, bulk = (
        ratio_of(page, row)
        for row in (
            "drain, one worker process,",
            "the same, against procrastinate",
            "drain, two worker processes,",
            "enqueue in batches of",
        )
    )
    return (
        f"Jobs drained at **{one}** times the rate of pgqueuer and **{other}** times that of procrastinate;"
        f" with two workers **{two}** of pgqueuer, enqueued in bulk **{bulk}**: here every transition is logged."
        f" The median of {rounds[1]} rounds{where} ([ledger.md](docs/figures/ledger.md))."
    )


def ratio_of(page: str, row: str) -> str:
    """The ratio to a peer in this row of the table of figures, as it is printed there."""
    (line,) = (line for line in page.splitlines() if line.startswith(f"| {row}"))
    found = re.match(r"[\d.]+", line.strip("|").split("|")[4].strip())
    assert found, line
    return found[0]
