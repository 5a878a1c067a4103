"""The figures that README quotes are those of the files it leads to."""

import json
import re
from typing import Any

import pytest

from duly.launcher import ROOT
from duly.verify import INVARIANTS
from tests.support.golden import check_golden

FIGURES = ROOT / "docs" / "figures"
README = ROOT / "README.md"
BEGIN, END = "<!-- figures: held against docs/figures by a test -->\n", "<!-- end of figures -->\n"


@pytest.mark.golden
def test_readme_quotes_the_recorded_measurements() -> None:
    before, _, rest = README.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = "".join(f"- {line}\n" for line in (faults(), invariants(), guards(), *ledger()))
    check_golden(README, before + BEGIN + lines + END + after)


def faults() -> str:
    """What was survived."""
    record: dict[str, Any] = json.loads((FIGURES / "chaos.data.json").read_text())
    totals: dict[str, int] = record["totals"]
    lost = sum(totals[f"commits of {whose} whose answer was lost"] for whose in ("clients", "workers"))
    return (
        f"**{totals['workers killed']:,}** workers and **{totals['postmaster kills']}** servers killed,"
        f" **{lost:,}** answers to commits lost,"
        f" in {record['seconds'] / 60:.0f} minutes of faults: "
        f"**{len(record['violations'])}** violations ([chaos.md](docs/figures/chaos.md))."
    )


def invariants() -> str:
    """What a whole database is held against."""
    return f"**{len(INVARIANTS)}** invariants that `./duly verify` checks ([verify.md](docs/verify.md))."


def guards() -> str:
    """What was removed, and noticed."""
    found = re.search(r"\| \*\*all\*\* \| \*\*(\d+)\*\* \| \*\*(\d+)\*\* \|", (FIGURES / "guards.md").read_text())
    assert found
    return f"**{found[2]}** of {found[1]} guards go red when they are removed ([guards.md](docs/figures/guards.md))."


def ledger() -> list[str]:
    """How fast jobs are done beside peers, a row of the page that was measured with care for each figure."""
    page = (FIGURES / "ledger.md").read_text()
    rounds = re.search(r"\| median of (\d+) rounds", page)
    assert rounds
    where = " on a quiet machine" if "nothing else running" in page else ""
    texts = {
        "drain, one worker process,": "times the rate of pgqueuer: jobs drained by one worker, every transition logged",
        "the same, against procrastinate": "times the rate of procrastinate: the same",
        "drain, two worker processes,": "times the rate of pgqueuer: jobs drained by two workers",
        "enqueue in batches of": "times the rate of pgqueuer: jobs enqueued in batches of 1000",
    }
    source = f"median of {rounds[1]} rounds{where}, [ledger.md](docs/figures/ledger.md)"
    return [f"**{ratio_of(page, row)}** {text} ({source})." for row, text in texts.items()]


def ratio_of(page: str, row: str) -> str:
    """The ratio to a peer in this row of the table of figures, as it is printed there."""
    (line,) = (line for line in page.splitlines() if line.startswith(f"| {row}"))
    found = re.match(r"[\d.]+", line.strip("|").split("|")[4].strip())
    assert found, line
    return found[0]
