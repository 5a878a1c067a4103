"""`duly doctor`: what is well, what is not, and what to do about it."""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from duly.cli.opening import open_existing
from duly.doctor import Finding, Verdict, examine
from duly.errors import Unavailable
from duly.formatting import as_called
from duly.settings import Settings, load_settings

__all__ = ["run_doctor"]

PROBLEMS_FOUND = 1


def run_doctor(as_json: bool) -> None:
    """Examine, and tell each finding as it comes; exit 0 when none is bad, 1 when one is, 69 without a database."""
    settings = load_settings()
    findings: list[Finding] = []
    answered = True

    def tell(finding: Finding) -> None:
        findings.append(finding)
        if not as_json:
            print(line_of(finding), flush=True)

    try:
        with open_existing(settings) as database:
            for finding in examine(database.dsn, settings):
                tell(finding)
    except Unavailable as error:
        answered = False
        tell(lost(error, settings))
    print(json.dumps([asdict(finding) for finding in findings]) if as_json else sum_of(findings))
    if not answered:
        sys.exit(Unavailable.exit_status)
    if any(finding.verdict is Verdict.BAD for finding in findings):
        sys.exit(PROBLEMS_FOUND)


def lost(error: Unavailable, settings: Settings) -> Finding:
    """The one finding about a database that does not answer; of a server's log that comes with it, the last line."""
    first, *rest = str(error).splitlines()
    found = " ".join([first, *(line.strip() for line in rest[-1:])])
    fix = "start the server, or set DATABASE_URL to where it is"
    if not settings.database_url:
        fix = f"read postgres.log in DULY_HOME={settings.home}, or set DATABASE_URL to a server you run"
    return Finding("connection", Verdict.BAD, found, fix)


def line_of(finding: Finding) -> str:
    """A finding as one line: the verdict, the check, the figure, the fix."""
    fix = f"; fix: {as_called(finding.fix)}" if finding.fix else ""
    return f"{finding.verdict:5} {finding.check:22} {finding.found}{fix}"


def sum_of(findings: Sequence[Finding]) -> str:
    """How many of each verdict."""
    count = Counter(finding.verdict for finding in findings)
    return "duly: " + ", ".join(f"{count[verdict]} {verdict}" for verdict in Verdict)
