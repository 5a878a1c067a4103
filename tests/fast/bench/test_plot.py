"""Pictures of figures are whole, tell every value, and are the same for the same figures."""

from collections.abc import Callable
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from tools.bench.plot import Bar, bars, curves, human, percentiles

SVG = "{http://www.w3.org/2000/svg}"
NASTY = 'a <b> & "c" → ö'
ROWS = [
    Bar("duly", 10_194, "0.97 of it", "drain", 8_488, 13_494),
    Bar("pgqueuer", 11_646.4, group="drain", is_ours=False),
    Bar("duly", 2, group="single"),
    Bar("pgqueuer", 4, group="single", is_ours=False),
]


def texts_of(picture: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(picture).iter(f"{SVG}text")]  # noqa: S314 (ours)


def boxes_of(picture: str, *kinds: str) -> list[float]:
    boxes = ElementTree.fromstring(picture).iter(f"{SVG}rect")  # noqa: S314 (ours)
    return [float(each.attrib["width"]) for each in boxes if each.attrib["class"] in kinds]


def test_bar_lengths_are_proportional_within_a_group() -> None:
    picture = bars("Rates", ROWS, "/s")
    first, second, third, fourth = boxes_of(picture, "ours", "other")
    assert second / first == pytest.approx(11_646.4 / 10_194, rel=0.01)
    assert fourth / third == pytest.approx(2, rel=0.01)


def test_bar_lengths_on_one_scale_are_proportional_between_groups() -> None:
    lengths = boxes_of(bars("Rates", ROWS, "/s", is_one_scale=True), "ours", "other")
    assert lengths[2] == lengths[3] == 1.0 < lengths[1]


def test_every_label_value_and_note_is_text() -> None:
    output = texts_of(bars("Rates", ROWS, "/s"))
    assert output[0] == "Rates"
    assert {"drain", "single", "duly", "pgqueuer", "10,194 /s (0.97 of it)", "11,646 /s", "2 /s", "4 /s"} <= set(output)


def test_picture_has_an_accessible_title_and_description() -> None:
    picture = ElementTree.fromstring(bars("Rates", ROWS, "/s"))  # noqa: S314 (ours)
    assert picture.attrib["role"] == "img"
    assert picture.attrib["aria-labelledby"] == "title desc"
    title, text = picture.find(f"{SVG}title"), picture.find(f"{SVG}desc")
    assert title is not None
    assert text is not None
    assert title.text == "Rates"
    assert "drain, duly: 10,194 /s (0.97 of it)" in (text.text or "")
    assert "Every group has a scale of its own." in (text.text or "")


def test_picture_supports_dark_mode() -> None:
    picture = bars("Rates", ROWS, "/s")
    assert "prefers-color-scheme: dark" in picture
    assert "currentColor" in picture


@pytest.mark.parametrize(
    "draw",
    [
        lambda: bars(NASTY, [Bar(NASTY, 1, NASTY, NASTY)], NASTY),
        lambda: percentiles(NASTY, {NASTY: {"p50": 1.0}}, NASTY),
        lambda: curves(NASTY, {NASTY: [(1, 1)]}, NASTY, NASTY),
    ],
    ids=["bars", "percentiles", "curves"],
)
def test_picture_escapes_every_text(draw: Callable[[], str]) -> None:
    picture = draw()
    assert NASTY in texts_of(picture)
    assert draw() == picture


def test_percentiles_are_grouped_side_by_side() -> None:
    output = texts_of(
        percentiles("Waits", {"duly": {"p50": 2.4, "p95": 4.2}, "bare": {"p50": 2.1}}, "ms", ours={"duly"})
    )
    assert output == ["Waits", "p50", "duly", "2.40 ms", "bare", "2.10 ms", "p95", "duly", "4.20 ms"]


def test_curves_use_a_logarithmic_axis_and_label_their_points() -> None:
    series = {"pass": [(1_000, 1.0), (10_000, 0.9), (100_000, 0.95)], "due": [(1_000, 1.0), (100_000, 1.26)]}
    picture = curves("Growth", series, "rows", "part", needed=(0.7, 1.3))
    output = texts_of(picture)
    assert {"1,000", "10,000", "100,000", "rows", "part", "pass", "due", "0.90", "1.26"} <= set(output)
    lines = [each.attrib["points"] for each in ElementTree.fromstring(picture).iter(f"{SVG}polyline")]  # noqa: S314
    (left, middle, right), _ = [[float(point.split(",")[0]) for point in line.split()] for line in lines]
    assert middle - left == pytest.approx(right - middle, abs=0.2)  # each ten times the one before
    assert "Needed: 0.70 to 1.30." in picture
    assert len(boxes_of(picture, "needed")) == 1


def test_footnote_is_shown_below_and_in_the_description() -> None:
    with_foot = bars("Rates", ROWS, "/s", foot="at a load of 9")
    assert texts_of(with_foot)[-1] == "at a load of 9"
    assert with_foot.count("at a load of 9") == 2
    plain, taller = (ElementTree.fromstring(each) for each in (bars("Rates", ROWS, "/s"), with_foot))  # noqa: S314
    assert float(taller.attrib["height"]) > float(plain.attrib["height"])


def test_single_points_are_drawn_and_empty_charts_refused() -> None:
    assert "7" in texts_of(curves("One", {"a": [(5, 7)]}, "x", "y"))
    assert boxes_of(bars("None", [Bar("none", 0)], ""), "ours") == [1.0]
    with pytest.raises(AssertionError, match="nothing"):
        bars("Empty", [], "")


def test_numbers_are_formatted_for_readers() -> None:
    written = [human(value) for value in (0, 0.123, 1, 9.87, 10.04, 99.9, 123.4, 1_000, 1_234_567.8)]
    assert written == ["0", "0.12", "1", "9.87", "10.0", "99.9", "123", "1,000", "1,234,568"]


def test_rows_do_not_overlap() -> None:
    picture = ElementTree.fromstring(bars("Rates", ROWS, "/s"))  # noqa: S314 (ours)
    boxes = [each for each in picture.iter(f"{SVG}rect") if each.attrib["class"] in ("ours", "other")]
    spans = [(float(each.attrib["y"]), float(each.attrib["height"])) for each in boxes]
    assert all(y + height < below for (y, height), (below, _) in pairwise(spans))
    assert float(picture.attrib["height"]) > sum(spans[-1])
