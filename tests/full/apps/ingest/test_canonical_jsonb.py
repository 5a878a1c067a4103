"""A payload that is accepted keeps its digest through jsonb."""

from typing import Any

import psycopg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from duly.canonical_json import MAX_NUMBER, checked_json, digest

STRINGS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
NUMBERS = st.integers(-MAX_NUMBER, MAX_NUMBER) | st.floats(-float(MAX_NUMBER), float(MAX_NUMBER))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | STRINGS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(STRINGS, inner, max_size=5),
    max_leaves=30,
)


def test_a_value_keeps_its_digest_through_jsonb(database: str) -> None:
    with psycopg.connect(database) as connection:

        @settings(deadline=None, max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture])
        @given(st.dictionaries(STRINGS, VALUES, max_size=5))
        def holds(value: dict[str, Any]) -> None:
            let_in = checked_json(value)
            row = connection.execute("select %s::jsonb", [Jsonb(let_in)]).fetchone()
            assert row is not None
            assert digest(row[0]) == digest(value)
            assert checked_json(row[0]) == let_in

        holds()
