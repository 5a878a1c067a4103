"""The examples run, and the pages show code that runs."""

import json

from tests.support.processes import PYTHON, Program, plain_environment

DULY = (*PYTHON, "-m", "duly")


def test_the_first_job_of_the_readme_is_done(database: str) -> None:
    environment = plain_environment(DATABASE_URL=database, DULY_LOG_LEVEL="warning")
    with Program((*DULY, "worker", "--app", "examples.greet:app"), environment=environment) as worker:
        ask = (*DULY, "jobs", "enqueue", "greet", "--payload", '{"name": "Anna"}', "--watch", "--json")
        with Program(ask, environment=environment) as asked:
            assert asked.finish() == 0
            lines = [json.loads(line) for line in (asked.process.stdout or ()) if line.strip()]
        assert worker.process.poll() is None
    assert lines[-1]["status"] == "succeeded"
    assert lines[-1]["result"] == "hello Anna"
