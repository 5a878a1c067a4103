"""The test helpers for users, and the pytest plugin in a project of its own."""

import re
import textwrap
from datetime import timedelta
from pathlib import Path

import psycopg

import duly
from duly.backoff import BackoffPolicy
from duly.launcher import ROOT
from duly.testing import Clock, drain
from tests.fast.testing.test_testing import ALONE, OTHER_ORG, WITH_OURS, app, chain, plain, pytest_in
from tests.support.shop import app as shop


@app.job("stumble", max_attempts=4, backoff=duly.Backoff(BackoffPolicy.FIXED, 3600, 3600))
async def stumble(ctx: duly.Context, until: int) -> str:
    """Fail until the attempt is high enough, an hour apart."""
    if ctx.attempt < until:
        raise ValueError(f"attempt {ctx.attempt}")
    return "stood up"


# What happens when a worker performs it? ------------------------------------------------------------------------------


def test_drain_performs_due_jobs_and_the_jobs_they_enqueue(duly_database: str) -> None:
    with psycopg.connect(duly_database) as tx:
        chain.on(tx).enqueue(3)
    done = drain(app, duly_database)
    assert [((job.payload or {})["links"], job.status) for job in done] == [(n, "succeeded") for n in (3, 2, 1, 0)]
    assert drain(app, duly_database) == []


def test_drain_performs_retries_by_moving_the_clock(duly_database: str, duly_clock: Clock) -> None:
    began = duly_clock.now()
    with psycopg.connect(duly_database) as tx:
        stumble.on(tx).enqueue(2)
        stumble.on(tx).enqueue(9)
    rises, falls = drain(app, duly_database)
    assert (rises.status, rises.starts, rises.result) == ("succeeded", 3, "stood up")
    assert (falls.status, falls.starts, falls.last_error_message) == ("dead_letter", 4, "ValueError: attempt 3")
    assert timedelta(hours=3) < duly_clock.now() - began < timedelta(hours=4)


def test_drain_leaves_delayed_jobs_until_the_clock_is_moved(duly_database: str, duly_clock: Clock) -> None:
    with psycopg.connect(duly_database) as tx:
        plain.on(tx).enqueue("later")
        plain.on(tx, delay="6h").enqueue("delayed")
    (snoozing,) = drain(app, duly_database)
    assert (snoozing.status, snoozing.snoozes) == ("queued", 1)
    duly_clock.advance("6h")
    assert [job.status for job in drain(app, duly_database)] == ["queued", "succeeded"]


def test_drain_performs_jobs_of_every_org_and_executor(duly_database: str) -> None:
    with psycopg.connect(duly_database) as tx:
        shop.types["alone"].on(tx, org=OTHER_ORG).enqueue("well")
        shop.types["climb_plainly"].on(tx).enqueue()
    assert {(job.type, job.org_id, job.status) for job in drain(shop, duly_database)} == {
        ("alone", OTHER_ORG, "succeeded"),
        ("climb_plainly", shop.org, "succeeded"),
    }


def test_drain_performs_more_jobs_than_one_batch(duly_database: str) -> None:
    with psycopg.connect(duly_database) as tx:
        for _ in range(120):
            plain.on(tx).enqueue()
    assert len(drain(app, duly_database)) == 120


def write_project(directory: Path, page: str) -> None:
    """Return the files that a page of the docs shows; the first line of a block names its file."""
    files: dict[str, list[str]] = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL):
        name, _, code = block.partition("\n")
        files.setdefault(name.removeprefix("# "), []).append(code)
    for name, blocks in files.items():
        (directory / name).write_text("\n\n".join(blocks))


def test_the_test_project_of_the_docs_passes_on_a_given_server_and_cleans_up(tmp_path: Path, database: str) -> None:
    write_project(tmp_path, "testing.md")
    ran = pytest_in(tmp_path, *WITH_OURS, **ALONE, TEST_DATABASE_URL=database)
    assert "7 passed" in ran.stdout, ran.stdout + ran.stderr
    left = "select datname from pg_database where datname ~ 'duly_test_[0-9a-f]{12}_'"
    with psycopg.connect(database) as connection:
        assert connection.execute(left).fetchall() == []


def test_the_processes_of_a_test_run_share_a_server_and_remove_it(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent(
            """
            import psycopg, pytest

            @pytest.mark.parametrize("n", range(4))
            def test_each(n, duly_database, duly_home, worker_id):
                with psycopg.connect(duly_database) as tx:
                    assert tx.execute("select count(*) from ledger.job").fetchone() == (0,)
                    tx.execute("select ledger.enqueue('00000000-0000-0000-0000-000000000001', 'x')")
                with open("homes", "a") as homes:
                    homes.write(f"{duly_home} {worker_id}\\n")
            """
        )
    )
    ran = pytest_in(tmp_path, *WITH_OURS, "-p", "xdist.plugin", "-n", "2", **ALONE)
    assert "4 passed" in ran.stdout, ran.stdout + ran.stderr
    rows = [line.split() for line in (tmp_path / "homes").read_text().splitlines()]
    assert {worker for _, worker in rows} == {"gw0", "gw1"}
    (home,) = {home for home, _ in rows}
    assert not Path(home).exists()


def test_a_server_that_is_not_marked_for_tests_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "def test_home(duly_home):\n    print('home', duly_home)\n\ndef test_it(duly_database): ...\n"
    )
    address = "postgresql://somewhere/production"
    ran = pytest_in(tmp_path, "-s", *WITH_OURS, **ALONE, TEST_DATABASE_URL=address)
    assert "1 passed, 1 error" in ran.stdout, ran.stdout + ran.stderr
    assert "TEST_DATABASE_URL names the database 'production'" in ran.stdout
    (home,) = set(re.findall(r"home (/tmp/\S+)", ran.stdout))
    assert not Path(home).exists()
