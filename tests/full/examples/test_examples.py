"""The examples run, and the pages show code that runs."""

import json

from tests.support.processes import PYTHON, Program, plain_environment

DULY = (*PYTHON, "-m", "duly")


def test_the_first_job_of_the_readme_succeeds(database: str) -> None:
    environment = plain_environment(DATABASE_URL=database, DULY_LOG_LEVEL="warning")
    with Program((*DULY, "worker", "--app", "examples.greet:app"), environment=environment) as worker:
        command = (*DULY, "jobs", "enqueue", "greet", "--payload", '{"name": "Anna"}', "--watch", "--json")
        with Program(command, environment=environment) as program:
            assert program.finish() == 0
            lines = [json.loads(line) for line in (program.process.stdout or ()) if line.strip()]
        assert worker.process.poll() is None
    assert lines[-1]["status"] == "succeeded"
    assert lines[-1]["result"] == "hello Anna"
