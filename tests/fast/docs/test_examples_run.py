"""Every example of README and docs is run by a test, or is listed with the reason why it cannot be."""

import re
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import psycopg
from sqlalchemy import create_engine
from typer.core import TyperGroup as Group

import duly
from duly.db.location import to_url
from duly.launcher import ROOT
from duly.testing import perform
from tests.support.command_line import load_all_commands
from tests.support.locks import supabase_turn
from tests.support.pages import CANNOT_RUN, RUN_ELSEWHERE, Block, blocks

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
CODE = re.compile(r"^```\w*\n(.*?)^```$|`([^`\n]+)`", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"(?<![\w./-])(?:\./)?duly ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)?)\b([^|`#]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
ENSURE_RUN = "select job_run_id, is_new from scheduler.ensure_run(1, '2026-11', '2026-11-01 10:00+01');"
PASS_ARGUMENTS_ON = {"test", "psql"}


def block_of(page: str, first_line: str) -> Block:
    """The one block of a page that begins so."""
    (found,) = [block for block in blocks() if block.key == (page, first_line)]
    return found


# All of them ----------------------------------------------------------------------------------------------------------


def test_every_listed_doc_block_and_its_test_exist() -> None:
    known = {block.key for block in blocks()}
    listed = Counter([*RUN_ELSEWHERE, *CANNOT_RUN])
    assert [key for key in listed if key not in known] == [], "no page has such a block any more"
    assert [key for key, times in listed.items() if times > 1] == []
    assert [test for test in RUN_ELSEWHERE.values() if not (ROOT / test).is_file()] == []


def test_every_python_or_sql_block_in_the_docs_is_run_by_a_test() -> None:
    offenders = [
        block.key for block in blocks() if block.language in ("python", "sql") and block.key not in RUN_ELSEWHERE
    ]
    assert offenders == [], "add a test that runs it, and name it in tests/support/pages.py"


def test_every_command_option_in_the_docs_exists() -> None:
    assert list(wrong_options()) == []


def wrong_options() -> Iterator[str]:
    """Each option in the code of a page that its command does not know."""
    group = load_all_commands()
    for page in PAGES:
        for block, span in CODE.findall(page.read_text()):
            for line in (block or span).split("\n"):
                for words, rest in CALL.findall(line):
                    known = options_of(group, words.split())
                    if known is not None:
                        given = OPTION.findall(rest.partition(" duly ")[0])
                        yield from (f"{page.name}: duly {words} {each}" for each in given if each not in known)


def options_of(group: Group, words: list[str]) -> set[str] | None:
    """The options of the command that these words begin; None when it is none, or passes them on."""
    first = group.commands.get(words[0])
    if isinstance(first, Group):
        first = first.commands.get(words[1]) if len(words) > 1 else None
    if first is None or words[0] in PASS_ARGUMENTS_ON:
        return None
    return {
        "--help",
        *(option for parameter in first.params for option in (*parameter.opts, *parameter.secondary_opts)),
    }


# Python ---------------------------------------------------------------------------------------------------------------


def test_readme_example_enqueues_a_job_inside_a_transaction(database: str) -> None:
    names: dict[str, Any] = {"engine": create_engine(to_url(database).replace("postgresql", "postgresql+psycopg", 1))}
    exec(block_of("README.md", "import duly").text, names)  # noqa: S102 (the page itself)
    exec(block_of("README.md", "with engine.begin() as tx:").text, names)  # noqa: S102
    names["engine"].dispose()
    with psycopg.connect(database) as connection:
        found = connection.execute("select type, idempotency_key, payload from ledger.job").fetchall()
    assert found == [("greet", "order:42", {"name": "Anna"})]


def test_logging_example_in_the_docs_runs() -> None:
    names: dict[str, Any] = {"error": OSError("gone"), "__name__": "page"}
    exec(block_of("docs/logs.md", "from duly.logging import get_log").text, names)  # noqa: S102


# SQL ------------------------------------------------------------------------------------------------------------------


def test_documented_sql_enqueues_a_job(database: str) -> None:
    statement = block_of("docs/ledger.md", "select id, outcome from ledger.enqueue(").text
    with psycopg.connect(database) as connection:
        outcomes = [cast("Any", connection.execute(cast("Any", statement)).fetchone())[1] for _ in range(2)]
        assert outcomes == ["created", "existing"]


def test_documented_sql_ensures_a_run(database: str) -> None:
    statement = block_of("docs/scheduler.md", ENSURE_RUN).text
    with psycopg.connect(database) as connection:
        connection.execute("""insert into duly.person (uid) values ('anna')""")
        connection.execute(
            "insert into scheduler.jobs (user_id, name, rule, first_run_at)"
            " values (1, 'rent', 'cron: 0 10 1 * *', '2026-11-01 10:00+01')"
        )
        results = [cast("Any", connection.execute(cast("Any", statement)).fetchone()) for _ in range(2)]
    assert [is_new for _, is_new in results] == [True, False]
    assert results[0][0] == results[1][0]


def test_documented_handlers_can_be_declared_and_return_the_documented_results() -> None:
    reported: list[BaseException] = []

    def capture_exception(error: BaseException, tags: object) -> None:
        reported.append(error)

    names: dict[str, Any] = {
        "duly": duly,
        "app": duly.App(),
        "sentry_sdk": SimpleNamespace(capture_exception=capture_exception),
        "rows": lambda: [1, 2],
        "index": print,
    }
    exec(block_of("docs/ledger.md", "@app.on_failure").text, names)  # noqa: S102
    exec(block_of("docs/ledger.md", '@app.job("reindex")').text, names)  # noqa: S102
    error = ValueError("no lines")
    names["report"](SimpleNamespace(job_id=1, type="reindex"), error)
    assert reported == [error]
    assert perform(names["reindex"]) == duly.Done("all of it")


def test_documented_supabase_grants_can_be_executed(database: str, server: str) -> None:
    with supabase_turn(server), psycopg.connect(database) as connection:
        connection.execute("create role authenticated")  # as Supabase has it
        for block in blocks():
            if (block.page, block.language) == ("docs/supabase.md", "sql"):
                statements = re.sub(r"\bapp\b", "app_of_the_page", block.text)
                connection.execute(cast("Any", statements))
        connection.rollback()  # roles belong to the whole server
