"""Tests that want to be alone are, and are not overtaken for ever."""

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path

import pytest

from tests.support.turns import Turns

PATIENCE = 30.0
A_MOMENT = 0.2


class Somebody:
    """A process of the run: takes a turn in a thread, and keeps it until told."""

    def __init__(self, turn: Callable[[], AbstractContextManager[None]]) -> None:
        self.is_in = threading.Event()
        self.may_go = threading.Event()
        self.thread = threading.Thread(target=self.take, args=[turn], daemon=True)
        self.thread.start()

    def take(self, turn: Callable[[], AbstractContextManager[None]]) -> None:
        """Be there for a while."""
        with turn():
            self.is_in.set()
            self.may_go.wait(PATIENCE)

    def comes(self) -> bool:
        """Whether it got its turn."""
        return self.is_in.wait(PATIENCE)

    def waits(self) -> bool:
        """Whether it still has none, after a moment."""
        return not self.is_in.wait(A_MOMENT)

    def goes(self) -> None:
        """Let it end its turn."""
        self.may_go.set()
        self.thread.join(PATIENCE)


Enter = Callable[[], Turns]


@pytest.fixture
def enter(tmp_path: Path) -> Generator[Enter, None, None]:
    """Another process of the run."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(Turns(tmp_path)))


def test_tests_run_side_by_side(enter: Enter) -> None:
    several = [Somebody(enter().beside_others) for _ in range(3)]
    assert all(each.comes() for each in several)
    for each in several:
        each.goes()


def test_who_wants_to_be_alone_waits_for_the_others_and_nobody_overtakes(enter: Enter) -> None:
    early = Somebody(enter().beside_others)
    assert early.comes()
    alone = Somebody(enter().alone)
    assert alone.waits()
    late = Somebody(enter().beside_others)
    assert late.waits()
    early.goes()
    assert alone.comes()
    assert late.waits()
    alone.goes()
    assert late.comes()
    late.goes()


def test_two_are_never_alone_at_once(enter: Enter) -> None:
    first = Somebody(enter().alone)
    assert first.comes()
    second = Somebody(enter().alone)
    assert second.waits()
    first.goes()
    assert second.comes()
    second.goes()


def test_of_several_in_a_row_nobody_comes_between(enter: Enter) -> None:
    turns = enter()
    with turns.alone(stays=True):
        pass
    other = Somebody(enter().beside_others)
    assert other.waits()
    with turns.alone():
        assert other.waits()
    assert other.comes()
    other.goes()
