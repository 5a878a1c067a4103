"""The examples run, and the pages show code that runs."""

import re
from typing import Any
from uuid import UUID

import psycopg
from sqlalchemy import create_engine, make_url, text

import duly
from duly.launcher import ROOT
from duly.testing import drain, install_test_clock


def code_of(page: str) -> list[str]:
    """The Python of a page, block by block."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def engine_for(database: str) -> Any:
    """An SQLAlchemy engine on this database."""
    return create_engine(make_url("postgresql+psycopg://"), creator=lambda: psycopg.connect(database))


def test_readme_shows_the_example_unchanged() -> None:
    readme_code, _ = code_of("README.md")
    assert readme_code in (ROOT / "examples" / "greet.py").read_text()


def test_code_in_the_ledger_docs_runs(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as admin:
        install_test_clock(admin)
        admin.execute("create table public.invoices (order_id bigint)")
        admin.execute("grant insert on public.invoices to duly_api")
    declare, enqueue_one, enqueue_many, _, _, invoice = code_of("docs/ledger.md")  # tests/fast/docs runs the other two
    names: dict[str, Any] = {"engine": engine_for(database), "insert_order": text("select 1")}
    exec(declare, names)  # noqa: S102 - the page itself
    exec(invoice, names)  # noqa: S102
    exec(enqueue_one, names)  # noqa: S102
    exec(enqueue_many, names)  # noqa: S102
    assert len(names["creations"]) == 2
    app = names["app"]
    assert isinstance(app, duly.App)
    with names["engine"].begin() as tx:
        made = names["invoice"].on(tx).enqueue(order_id=7)
    assert isinstance(made.row, UUID)
    names["engine"].dispose()
    drain(app, database)
    with psycopg.connect(database, autocommit=True) as admin:
        assert admin.execute("select order_id from public.invoices").fetchall() == [(7,)]
        assert admin.execute(
            "select type, status::text, result from ledger.job order by created_at, payload ->> 'size'"
        ).fetchall() == [
            ("thumbnail", "queued", None),  # in ten seconds
            ("thumbnail", "succeeded", {"image": "a2", "made": "64 px"}),
            ("thumbnail", "succeeded", {"image": "a1", "made": "256 px"}),
            ("invoice", "succeeded", {"order": 7}),
        ]
