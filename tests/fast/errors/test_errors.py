"""Check every class of the error tree."""

from collections.abc import Iterator

from duly import errors
from duly.errors import DulyError


def tree(root: type[DulyError] = DulyError) -> Iterator[type[DulyError]]:
    yield root
    for child in root.__subclasses__():
        yield from tree(child)


def find_faults(error: type[DulyError]) -> Iterator[str]:
    """List what an error lacks."""
    if not error.code.isupper():
        yield f"{error.__name__}: code {error.code!r}, expected capitals"
    if not 400 <= error.status < 600:
        yield f"{error.__name__}: status {error.status}, expected 400 to 599"
    if not 1 <= error.exit_status < 126:
        yield f"{error.__name__}: exit status {error.exit_status}, expected 1 to 125"
    if not error.__doc__:
        yield f"{error.__name__}: no docstring"
    if "title" not in vars(error) or error.title.endswith("."):
        yield f"{error.__name__}: expected a title of its own, without a full stop"


def test_every_error_has_a_code_a_title_a_status_and_an_exit_status() -> None:
    offenders = [fault for error in tree() for fault in find_faults(error)]
    assert not offenders, "\n".join(offenders)


def test_error_codes_are_unique() -> None:
    codes = [error.code for error in tree()]
    assert len(codes) == len(set(codes))


def test_error_tree_in_the_docstring_lists_every_error_and_code() -> None:
    drawing = errors.__doc__ or ""
    for error in tree():
        assert error.__name__ in drawing
        if error not in (DulyError, errors.Refused):
            assert error.code in drawing


def test_public_names_of_the_module_are_the_error_classes() -> None:
    assert set(errors.__all__) == {error.__name__ for error in tree()}
