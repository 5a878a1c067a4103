"""The pool of worker processes that tests use: a wait for a dead process fails, and lines stay complete."""

import signal
import sys
import threading

import pytest

from tests.support.processes import print_line
from tests.support.worker_pool import WorkerPool

LINES = 200
LONG = "x" * 3000


def main() -> None:
    """What a worker of the pool does here: its second argument."""
    print_line("began")
    match sys.argv[2]:
        case "wait":
            threading.Event().wait()
        case "fail":
            raise ZeroDivisionError("on request")
        case "talk":
            for nth in range(LINES):
                print_line("line", nth, LONG)
        case _:
            return


class Pool(WorkerPool):
    """Workers that obey commands on standard input."""

    module = "tests.full.support.test_worker_pool"


def test_waiting_for_a_line_of_a_dead_worker_fails_at_once_with_its_output() -> None:
    with Pool("no database") as pool:
        pid = pool.start("fail")
        with pytest.raises(AssertionError, match="ZeroDivisionError: on request"):
            pool.wait_for_line(pid, "never")
        assert pool.exit_status(pid) != 0


def test_the_pool_knows_the_exit_status_of_every_worker() -> None:
    with Pool("no database") as pool:
        ended, killed = pool.start("end"), pool.start("wait")
        assert pool.exit_status(ended) == 0
        assert pool.wait_for_line(killed) == "began"
        assert pool.running == [killed]
        pool.kill(killed)
        assert pool.exit_status(killed) == -signal.SIGKILL
        assert pool.running == []


def test_lines_of_several_workers_are_not_mixed() -> None:
    with Pool("no database") as pool:
        pids = [pool.start("talk") for _ in range(6)]
        for pid in pids:
            assert pool.exit_status(pid) == 0
        for pid in pids:
            wanted = ["began", *(f"line {nth} {LONG}" for nth in range(LINES))]
            assert [pool.wait_for_line(pid) for _ in wanted] == wanted
