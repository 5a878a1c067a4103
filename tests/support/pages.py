"""The code that README and docs show: every block, what becomes of it in the tests, and the commands in it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from duly.launcher import ROOT

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = ("console", "sh", "python", "sql")
PROMPT = "$ "

# Blocks that another test runs, or holds against what the software says.
RUN_ELSEWHERE = {
    ("README.md", "$ ./duly up"): "tests/full/cli/test_up.py",
    ("README.md", "$ ./duly up --demo"): "tests/full/demo/test_demo.py",
    ("README.md", "import duly"): "tests/fast/examples/test_examples.py",
    ("README.md", "with engine.begin() as tx:"): "tests/fast/docs/test_examples_run.py",
    ("README.md", "$ ./duly up --app examples.greet:app"): "tests/full/examples/test_examples.py",
    ("docs/delivery.md", "update duly.outbox"): "tests/fast/outbox/test_sender.py",
    ("docs/demo.md", "$ ./duly up --demo"): "tests/full/demo/test_demo.py",
    (
        "docs/demo.md",
        "$ DULY_HOME=.duly/demo ./duly jobs timeline 01a1e6c1-7272-7fb5-aa42-5f2c73b570a1",
    ): "tests/full/demo/test_demo.py",
    ("docs/doctor.md", "$ duly doctor"): "tests/fast/verify/test_doctor.py",
    ("docs/fastapi.md", "# main.py"): "tests/fast/integrations/test_fastapi.py",
    (
        "docs/fastapi.md",
        "create table images (id text primary key, width int);",
    ): "tests/fast/integrations/test_fastapi.py",
    ("docs/fastapi.md", "# composed.py"): "tests/fast/integrations/test_fastapi.py",
    (
        "docs/ingest.md",
        'psql "$DATABASE_URL" -v worker=ocr_worker -f database/migrations/20260212_add_session_leases.sql',
    ): "tests/full/apps/ingest/test_backend.py",
    ("docs/ledger.md", "import duly"): "tests/fast/examples/test_examples.py",
    ("docs/ledger.md", "with engine.begin() as tx:"): "tests/fast/examples/test_examples.py",
    ("docs/ledger.md", '@app.job("invoice")'): "tests/fast/examples/test_examples.py",
    ("docs/ledger.md", "select id, outcome from ledger.enqueue("): "tests/fast/docs/test_examples_run.py",
    ("docs/ledger.md", "@app.on_failure"): "tests/fast/docs/test_examples_run.py",
    ("docs/ledger.md", '@app.job("reindex")'): "tests/fast/docs/test_examples_run.py",
    (
        "docs/scheduler.md",
        "select job_run_id, is_new from scheduler.ensure_run(1, '2026-11', '2026-11-01 10:00+01');",
    ): "tests/fast/docs/test_examples_run.py",
    ("docs/logs.md", "from duly.logging import get_log"): "tests/fast/docs/test_examples_run.py",
    ("docs/supabase.md", "create role app login password '…';"): "tests/fast/docs/test_examples_run.py",
    ("docs/supabase.md", "grant usage on schema ledger to authenticated;"): "tests/fast/docs/test_examples_run.py",
    ("docs/testing.md", "# shop.py"): "tests/full/testing/test_testing.py",
    ("docs/testing.md", "# conftest.py"): "tests/full/testing/test_testing.py",
    ("docs/testing.md", "# test_shop.py"): "tests/full/testing/test_testing.py",
}
# Blocks that no test can run, and why.
CANNOT_RUN = {
    (
        "README.md",
        "$ pip install '/path/to/this/checkout[server,embedded]'    # the command is then duly, without ./",
    ): "installs packages; .ci/fresh does so with empty homes",
    (
        "README.md",
        "$ DATABASE_URL=postgresql://admin@db/shop duly migrate",
    ): "needs a server called db, with the logins admin and app",
    ("README.md", "$ ./duly test"): "runs the tests themselves",
    ("docs/ingest.md", "$ ./duly ingest capture morning.png evening.png --user 42"): "needs the extra ocr",
    ("docs/ledger.md", "$ ./duly worker --app shop.jobs:app"): "runs until it is stopped, with an app of yours",
    ("docs/telegram.md", "$ ./duly people create anna --zone Europe/Stockholm --language sv"): "needs a bot's token",
    (
        "docs/telegram.md",
        "TELEGRAM_WEBHOOK_URL=https://duly.example.com/telegram/hook",
    ): "sets two variables and runs nothing",
}


@dataclass(frozen=True)
class Block:
    """A block of code on a page."""

    page: str
    language: str
    text: str

    @property
    def key(self) -> tuple[str, str]:
        """What it is called in the tables above: its page and its first line."""
        return self.page, self.text.split("\n", 1)[0]

    @property
    def is_example(self) -> bool:
        """Is it something that a reader would run?"""
        return self.language in LANGUAGES or self.text.startswith(PROMPT)


@dataclass(frozen=True)
class Command:
    """A line that a reader types, and what the page says it prints."""

    line: str
    output: tuple[str, ...] = ()

    @property
    def line_alone(self) -> str:
        """The line without a comment behind it."""
        return self.line.partition("  #")[0].rstrip()


def blocks() -> Iterator[Block]:
    """Every example of README and docs, in the order of the pages."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for language, text in FENCE.findall(page.read_text()):
            block = Block(str(page.relative_to(ROOT)), language, text)
            if block.is_example:
                yield block


def blocks_run_as_shell() -> dict[str, list[Block]]:
    """The blocks of commands that a shell runs as they stand, page by page."""
    found: dict[str, list[Block]] = {}
    for block in blocks():
        if block.key not in RUN_ELSEWHERE and block.key not in CANNOT_RUN:
            found.setdefault(block.page, []).append(block)
    return found


def commands_of(block: Block) -> list[Command]:
    """The commands of a block: behind a prompt with their output below, or as a script."""
    if not block.text.startswith(PROMPT):
        return [Command(block.text.rstrip("\n"))]
    found: list[Command] = []
    for line in block.text.rstrip("\n").split("\n"):
        if line.startswith(PROMPT):
            found.append(Command(line.removeprefix(PROMPT)))
        else:
            found[-1] = Command(found[-1].line, (*found[-1].output, line))
    return found
