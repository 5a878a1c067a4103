"""The tree of errors, walked."""

from collections.abc import Iterator

import pytest

from duly import errors
from duly.errors import DulyError


def tree(root: type[DulyError] = DulyError) -> Iterator[type[DulyError]]:
    yield root
    for child in root.__subclasses__():
        yield from tree(child)


@pytest.mark.parametrize("error", list(tree()), ids=lambda error: error.__name__)
def test_every_error_has_a_code_a_status_an_exit_number_and_a_sentence(error: type[DulyError]) -> None:
    assert error.code.isupper()
    assert 400 <= error.status < 600
    assert 1 <= error.exit_status < 126
    assert error.__doc__


def test_codes_are_not_shared() -> None:
    codes = [error.code for error in tree()]
    assert len(codes) == len(set(codes))


def test_the_drawing_shows_every_error_and_every_code() -> None:
    drawing = errors.__doc__ or ""
    for error in tree():
        assert error.__name__ in drawing
        if error not in (DulyError, errors.Refused):
            assert error.code in drawing


def test_the_public_names_are_the_tree() -> None:
    assert set(errors.__all__) == {error.__name__ for error in tree()}
