"""Parsing of amounts; hostile numbers are rejected cheaply."""

from decimal import Decimal

import pytest

from duly.apps.scheduler.model import to_amount
from duly.errors import InvalidArgument

ENDLESS = {
    "gigabytes": "1e3000000000",
    "more than memory": "1e999999999999999999",
    "below zero": "-1e3000000000",
    "gigabytes after the point": "1e-3000000000",
    "more than memory after the point": "1e-999999999999999999",
    "a number": Decimal("1e300000000"),
    "a number after the point": Decimal("1e-300000000"),
    "an integer": 10**5000,
    "zeros": "0" * 100_000 + "1",
    "digits": "9" * 100_000,
}


@pytest.mark.parametrize("amount", ENDLESS.values(), ids=ENDLESS)
def test_an_amount_with_too_many_digits_to_print_is_refused_with_the_same_message(amount: object) -> None:
    with pytest.raises(InvalidArgument, match=r"^expense\.amount: must be an amount such as 9\.99, not '") as error:
        to_amount("expense.amount", amount)
    assert len(str(error.value)) < 120


@pytest.mark.parametrize(
    "amount", ["1e14", "1e-7", "0.0000001", "-1", "-0", "inf", "NaN", "sNaN", "", " ", True, None, []]
)
def test_an_invalid_amount_is_refused(amount: object) -> None:
    with pytest.raises(InvalidArgument, match="must be an amount such as"):
        to_amount("expense.amount", amount)


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        ("9.99", "9.99"),
        (" 9.99 ", "9.99"),
        ("1e13", "10000000000000"),
        ("99999999999999.999999", "99999999999999.999999"),
        ("1e-6", "0.000001"),
        ("0", "0"),
        (9.5, "9.5"),
        (7, "7"),
        ("٣", "3"),
    ],
)
def test_an_amount_is_parsed(amount: object, expected: str) -> None:
    assert to_amount("expense.amount", amount) == Decimal(expected)
