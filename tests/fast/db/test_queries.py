"""The loader of named statements."""

from pathlib import Path

import pytest
from psycopg import sql

from duly.db.queries import Queries, load_queries, parse_queries

TEXT = """\
-- What this file is about.

-- name: find_thing
-- A thing by its key.
select * from {schema}.thing where key = %(key)s and detail <> '{}';

-- name: count_things
-- All there are.
select count(*) from {schema}.thing
"""


def test_each_named_block_becomes_a_statement() -> None:
    assert set(parse_queries(TEXT)) == {"find_thing", "count_things"}


def test_final_semicolon_is_removed() -> None:
    assert not parse_queries(TEXT)["find_thing"].endswith(";")


def test_placeholders_are_quoted_and_other_braces_kept() -> None:
    queries = Queries(parse_queries(TEXT), {}).using(schema='hostile"; drop')
    assert '"hostile""; drop".thing' in queries.find_thing.as_string(None)
    assert "'{}'" in queries.find_thing.as_string(None)
    assert isinstance(queries.find_thing, sql.SQL)


def test_unknown_statement_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no statement '-- name: no_such_thing'"):
        _ = Queries({}, {}).no_such_thing


def test_duplicate_statement_name_is_refused() -> None:
    with pytest.raises(ValueError, match="two statements are named"):
        parse_queries("-- name: one\n-- Rule.\nselect 1\n-- name: one\n-- Rule.\nselect 2\n")


def test_statement_without_a_rule_comment_is_refused() -> None:
    with pytest.raises(ValueError, match="does not state its rule"):
        parse_queries("-- name: one\nselect 1\n")


def test_sql_file_is_found_beside_its_module(tmp_path: Path) -> None:
    (tmp_path / "queries.sql").write_text(TEXT)
    assert "count(*)" in load_queries(str(tmp_path / "store.py")).count_things.as_string(None)
