"""Ranges of times as screens print them, and such as cannot be right."""

import re

from hypothesis import given
from hypothesis import strategies as st

from duly.apps.ingest.ocr.times import find_single_time, find_time_range

TIME = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]")
SINGLE = re.compile(rf"(?:{TIME.pattern}|24:00)(?: [AP]M)?")


ALIKE = (
    "0123456789OoQqDlLiI|:.;,-\N{EN DASH}~_ >\N{RIGHTWARDS ARROW}tilkop\N{FULLWIDTH COLON}\N{ARABIC-INDIC DIGIT ONE}²"
)


@given(
    st.text()
    | st.text(ALIKE)
    | st.lists(st.sampled_from(["08", "O9", "1l", "75", ":", ".", "-", " till ", "kl ", " AM", "p.m."])).map("".join)
)
def test_any_line_has_a_valid_range_a_problem_or_none(text: str) -> None:
    found = find_time_range(text)
    assert found is None or found.problem or (TIME.fullmatch(found.start) and TIME.fullmatch(found.end))
    for is_end in (False, True):
        single = find_single_time(text, is_end=is_end)
        assert single is None or SINGLE.fullmatch(single)
