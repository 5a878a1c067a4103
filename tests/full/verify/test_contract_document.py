"""`duly verify --print-contract`: a document from which a reader that knows nothing of ours can check a database."""

import json
from pathlib import Path
from typing import Any

from duly.verify.invariants import INVARIANTS
from tests.fast.verify.test_contract_document import document, printed
from tests.support.psql import psql

__all__ = ["document"]


def test_psql_runs_every_published_invariant_unchanged(document: dict[str, Any], database: str, tmp_path: Path) -> None:
    invariants = [
        *document["invariants"],
        *(invariant for each in document["contracts"] for invariant in each["invariants"]),
    ]
    file = tmp_path / "invariants.sql"
    file.write_text("\n\n".join(invariant["sql"] for invariant in invariants))
    assert psql(database, "-f", str(file)) == []
    assert {each["name"] for each in invariants} == {each.name for each in INVARIANTS}
    assert all(each["invariant"] for each in invariants)


def test_the_contract_document_of_one_contract_uses_the_configured_names() -> None:
    answer = printed("--contract", "ingest", DB_SCHEMA="days", DULY_OWNER_ROLE="boss")
    alone = json.loads(answer.stdout)
    (contract,) = alone["contracts"]
    assert (contract["name"], contract["schemas"]) == ("ingest", ["days"])
    assert {machine["table"] for machine in contract["machines"]} == {
        "days.capture_session",
        "days.schedule_notification",
    }
    text = json.dumps(alone)
    assert "schedule_ingest" not in text
    assert "owner boss" in text
    assert printed("--contract", "nothing").returncode == 2
