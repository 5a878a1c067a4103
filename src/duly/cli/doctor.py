"""`duly doctor`: check an installation and say how to fix it."""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

import typer

from duly.cli.existing_database import open_existing
from duly.cli.options import Json
from duly.db.installed import choose_applications
from duly.doctor import Finding, Verdict, run_checks
from duly.errors import Unavailable
from duly.formatting import rewrite_commands
from duly.settings import Settings, load_settings

app = typer.Typer()

PROBLEMS_FOUND = 1


@app.command("doctor")
def run_doctor(as_json: Json = False) -> None:
    """Check the server, the settings and the workers, and print how to fix problems.

    Exit 1 if a finding is bad, 69 if the database does not answer.

    Example: duly doctor --json
    """
    settings = load_settings()
    findings: list[Finding] = []
    is_available = True

    def report(finding: Finding) -> None:
        findings.append(finding)
        if not as_json:
            print(format_finding(finding), flush=True)

    try:
        with open_existing(settings) as database:
            for finding in run_checks(database.dsn, choose_applications(settings, database.dsn)):
                report(finding)
    except Unavailable as error:
        is_available = False
        report(connection_finding(error, settings))
    print(json.dumps([asdict(finding) for finding in findings]) if as_json else format_summary(findings))
    if not is_available:
        sys.exit(Unavailable.exit_status)
    if any(finding.verdict is Verdict.BAD for finding in findings):
        sys.exit(PROBLEMS_FOUND)


def connection_finding(error: Unavailable, settings: Settings) -> Finding:
    """Return the finding about a database that does not answer, with the last line of the server's log."""
    first, *rest = str(error).splitlines()
    found = " ".join([first, *(line.strip() for line in rest[-1:])])
    fix = "start the server, or set DATABASE_URL to where it is"
    if not settings.database_url:
        fix = f"read postgres.log in DULY_HOME={settings.home}, or set DATABASE_URL to a server you run"
    return Finding("connection", Verdict.BAD, found, fix)


def format_finding(finding: Finding) -> str:
    """Format a finding on one line: verdict, check, figure and fix."""
    fix = f"; fix: {rewrite_commands(finding.fix)}" if finding.fix else ""
    return f"{finding.verdict:5} {finding.check:22} {finding.found}{fix}"


def format_summary(findings: Sequence[Finding]) -> str:
    """Format how many findings have each verdict."""
    count = Counter(finding.verdict for finding in findings)
    return "duly: " + ", ".join(f"{count[verdict]} {verdict}" for verdict in Verdict)
