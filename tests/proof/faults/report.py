"""What a long run came to: a page, a picture, and everything for programs."""

import json
import os
import platform
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from duly.crashpoint import CRASHPOINTS
from duly.db.embedded.binaries import find_binaries
from duly.launcher import ROOT
from tests.proof.faults.checks import MAX_STARTS, MAX_WAIT, RECLAIMED
from tests.proof.faults.clients import BURNS
from tests.proof.faults.crash_sites import PASSED, CrashSite
from tests.proof.faults.episodes import EPISODES, Outcome
from tests.proof.faults.faults import WIRES
from tests.proof.faults.workers import WORKS
from tools.bench.figures.record import kernel_release
from tools.bench.plot import Bar, bars

FIGURES = ROOT / "docs" / "figures"
HALF_OPEN = tuple(f"half-open connections of {wire_name}" for wire_name in WIRES)
LOST_COMMITS = tuple(f"commits of {wire_name} whose answer was lost" for wire_name in WIRES)


@dataclass(frozen=True)
class Counted:
    """How a fault is counted: what must be above 0, or the fault had no effect; and what is reported beside it."""

    decisive: Sequence[str]
    beside: Sequence[str] = ()

    @property
    def names(self) -> Sequence[str]:
        """All of it."""
        return (*self.decisive, *self.beside)


SURVIVED: Mapping[str, Counted] = {  # every kind of fault there is to be
    "kill -9 at random": Counted(["workers killed", "clients killed"]),
    "kill -9 at crash points": Counted(["crash points met"], ["crash points armed"]),
    "SIGSTOP past the lease, then SIGCONT": Counted(
        ["workers stopped past their lease", "refused writes of stalled workers"],
        ["losses that stalled workers noticed"],
    ),
    "one WORKER_ID for all": Counted(["workers born"]),
    "SIGTERM storm": Counted(["workers asked to stop"]),
    "postmaster kill -9": Counted(["postmaster kills"]),
    "immediate stop of the server": Counted(["immediate stops"]),
    "backends terminated, the listener's too": Counted(["backends ended", "listeners ended"]),
    "commit answer lost, and asked again": Counted([*LOST_COMMITS, "answers lost for a while", "wires cut"]),
    "half-open connection": Counted(HALF_OPEN),
    "PgBouncer in transaction mode": Counted(["faults through a pooler"], ["poolers that died by themselves"]),
    "clocks skewed by an hour": Counted(["workers with another clock"]),
    "the database's clock jumps": Counted(["clock jumps"]),
    "handlers that burn the interpreter": Counted([f"handlers: burn {seconds} s" for seconds in sorted(set(BURNS))]),
    "handlers that abort": Counted(["handlers: abort"]),
    "handlers that end by a segmentation fault": Counted(["handlers: segfault"]),
    "handlers that eat memory": Counted(["handlers: memory"]),
    "handlers that exit": Counted(["handlers: exit"]),
    "handlers that never end": Counted(["handlers: loop"]),
    "disk full": Counted(["disks filled", "writes refused by a full disk"]),
    "a snapshot held": Counted(["seconds under a held snapshot"]),
    "migration down and up under load": Counted(
        ["migrations under load", "workers refused for want of the schema"], ["unanswered for want of the schema"]
    ),
    "receiver answers 500": Counted(["receiver: 500"]),
    "receiver answers 429": Counted(["receiver: 429"]),
    "receiver hangs": Counted(["receiver: hang"]),
    "receiver cuts after it took the message": Counted(["receiver: cut"]),
    "storm of answers": Counted(["storms of answers", "taps in storms"]),
    "storm of intents": Counted(["storms of intents", "requests in storms"]),
}
WITNESSED = (
    "acknowledged jobs",
    "acknowledged posts",
    "acknowledged captures",
    "acknowledged answers",
    "unanswered",
    "captures whose answer was lost",
    "leases lost by others",
    "messages received",
    "messages received twice",
    *(f"begun again: {work}" for work in RECLAIMED),
    "lines of logs remembered",
    "verifications",
)


def about_this_machine(seed: int) -> dict[str, object]:
    """Everything that a run depends on, as far as we know it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=ROOT).stdout.strip()
    return {
        "seed": seed,
        "commit": commit,
        "when": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "machine": f"{os.cpu_count()} processors, {memory:.0f} GiB, "
        f"{platform.system()} {kernel_release()} {platform.machine()}",
        "versions": f"Python {platform.python_version()}, PostgreSQL {find_binaries().version}",
    }


def load() -> str:
    """How busy the machine is: of the last minute, and of the last five and fifteen."""
    return " ".join(f"{each:.1f}" for each in os.getloadavg())


def sum_counts(outcomes: Sequence[Outcome]) -> Counter[str]:
    """All counts of all episodes; of the longest the longest."""
    totals = sum((Counter(outcome.counts) for outcome in outcomes), Counter[str]())
    for name in (MAX_WAIT, MAX_STARTS):
        totals[name] = max((outcome.counts.get(name, 0) for outcome in outcomes), default=0)
    return totals


def as_json(outcomes: Sequence[Outcome], missing: Mapping[str, str], about: Mapping[str, object]) -> dict[str, object]:
    """Everything, for programs."""
    return {
        **about,
        "seconds": sum(outcome.seconds for outcome in outcomes),
        "totals": sum_counts(outcomes),
        "not_run": dict(missing),
        "violations": [each for outcome in outcomes for each in outcome.violations],
        "episodes": [asdict(outcome) for outcome in outcomes],
    }


def write_report(outcomes: Sequence[Outcome], missing: Mapping[str, str], about: Mapping[str, object]) -> list[Path]:
    """The page, its picture, and its data; the files."""
    written = {
        "chaos.md": render_page(outcomes, missing, about),
        "chaos.svg": render_chart(outcomes, about),
        "chaos.data.json": json.dumps(as_json(outcomes, missing, about), indent=1) + "\n",
    }
    for name, text in written.items():
        (FIGURES / name).write_text(text)
    return [FIGURES / name for name in written]


def render_chart(outcomes: Sequence[Outcome], about: Mapping[str, object]) -> str:
    """What was survived."""
    totals = sum_counts(outcomes)
    rows = [Bar(name, float(totals[name])) for each in SURVIVED.values() for name in each.names if totals[name]]
    return bars("Survived, with no promise broken", rows, "", is_one_scale=True, foot=f"seed {about['seed']}")


def render_page(outcomes: Sequence[Outcome], missing: Mapping[str, str], about: Mapping[str, object]) -> str:
    """The page of figures."""
    totals = sum_counts(outcomes)
    minutes = sum(outcome.seconds for outcome in outcomes) / 60
    broken = [each for outcome in outcomes for each in outcome.violations]
    lines = [
        "<!-- Written by: duly chaos --report -->",
        "# Faults survived",
        "",
        f"{minutes:.0f} minutes of faults in {len(outcomes)} episodes, each in a world of its own: a durable server, "
        "workers over every work type under one name, clients that record their answers, and a receiver that "
        f"notes what came. After each every promise was held against it: **{len(broken)} violations**.",
        "",
        *(f"- {name}: {value}" for name, value in about.items()),
        "",
        "![What was survived](chaos.svg)",
        "",
        "| fault | counted | times |",
        "|---|---|---|",
        *(f"| {fault} | {name} | {totals[name]:,} |" for fault, each in SURVIVED.items() for name in each.names),
        "",
        *crash_point_table(totals),
        "",
        "| witnessed | |",
        "|---|---|",
        *(f"| {name} | {totals[name]:,} |" for name in WITNESSED),
        "",
        "| episode | what | seed | seconds | longest wait of a client | violations |",
        "|---|---|---|---|---|---|",
        *map(render_row, outcomes),
        "",
        "Not run on this machine: "
        + ("; ".join(f"{name} ({reason})" for name, reason in missing.items()) or "nothing")
        + ".",
        "",
        "Faults that never came: " + (", ".join(never_occurred(totals)) or "none") + ".",
        "",
        "Handlers that misbehave are among the jobs of every episode; what was recorded of them is counted. A refused "
        "write of a stalled worker is a settle of a worker that was stopped, after it went on; what its heartbeat "
        "noticed first "
        "is counted apart, and what other workers lost, to a jump of the clock or a cut wire, is `leases lost by "
        "others`. "
        "`unanswered` counts how often a client had to ask again because no answer came. A capture has no key to be "
        "asked again with: one whose answer was lost is asked for anew, and `captures whose answer was lost` are "
        "there beside the acknowledged ones, no more than requests without an answer. "
        "Messages that came twice did so under their own id, and no oftener than the log has attempts.",
    ]
    if broken:
        lines += ["", "## Violations", "", *(f"- {each}" for each in broken[:50])]
    return "\n".join(lines) + "\n"


def never_occurred(totals: Mapping[str, int]) -> list[str]:
    """Faults that did not come, or not in every form; of the crash points every place that no worker died at."""
    faults = [fault for fault, each in SURVIVED.items() if not all(totals.get(name) for name in each.decisive)]
    unmet = [site for site in PASSED if not totals.get(f"met: {site.point} of {site.work}")]
    if "kill -9 at crash points" in faults or not unmet:
        return faults
    return [*faults, *(f"kill -9 at crash points: {site!r}" for site in unmet)]


def crash_point_table(totals: Mapping[str, int]) -> Iterator[str]:
    """How often a worker died at a crash point of its work, of how many that were to."""
    yield f"| met of armed | {' | '.join(WORKS)} |"
    yield f"|---|{'---|' * len(WORKS)}"
    for point in sorted(CRASHPOINTS):
        cells = [
            f"{totals[f'met: {point} of {work}']} of {totals[f'armed: {point} of {work}']}"
            if CrashSite(work, point) in PASSED
            else "never passed"
            for work in WORKS
        ]
        yield f"| {point} | {' | '.join(cells)} |"


def render_row(outcome: Outcome) -> str:
    """An episode in a line."""
    about, several = EPISODES[outcome.episode].about, len(outcome.violations)
    waited = outcome.counts.get(MAX_WAIT, 0) / 1000
    return f"| {outcome.episode} | {about} | {outcome.seed} | {outcome.seconds:.0f} | {waited:.1f} s | {several} |"
