"""The figures that README quotes are those of the files it leads to."""

import json
import re
from typing import Any

from bench.figures.record import Record
from bench.report import verdicts_of
from duly.launcher import ROOT
from duly.verify import INVARIANTS
from tests.support.golden import check_golden

FIGURES = ROOT / "docs" / "figures"
README = ROOT / "README.md"
BEGIN, END = "<!-- figures: held against docs/figures by a test -->\n", "<!-- end of figures -->\n"


def test_the_readme_quotes_what_was_measured() -> None:
    before, _, rest = README.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = "".join(f"- {line}\n" for line in (faults(), laws(), guards(), drain()))
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


def laws() -> str:
    """What a whole database is held against."""
    return f"**{len(INVARIANTS)}** laws that `./duly verify` asks ([verify.md](docs/verify.md))."


def guards() -> str:
    """What was removed, and noticed."""
    found = re.search(r"\| \*\*all\*\* \| \*\*(\d+)\*\* \| \*\*(\d+)\*\* \|", (FIGURES / "guards.md").read_text())
    assert found
    return f"**{found[2]}** of {found[1]} guards go red when they are removed ([guards.md](docs/figures/guards.md))."


def drain() -> str:
    """How fast jobs are done beside a peer, and how far to trust it."""
    record = Record.read(FIGURES / "ledger.data.json")
    verdicts = verdicts_of(record.measures, record.needs)
    (ratio,) = (each.median for each in verdicts if (each.need.scenario, each.need.peer) == ("drain", "pgqueuer"))
    rounds = "one round" if record.rounds == 1 else f"the median of {record.rounds} rounds"
    where = "a busy machine" if record.was_busy else "a quiet machine"
    return (
        f"Jobs drained at **{ratio:.2f}** times the rate of pgqueuer, {rounds} on {where}"
        " ([figures](docs/figures/README.md))."
    )
