"""What a session writes: everything in one transaction, or nothing."""

from typing import Any

from hypothesis import HealthCheck, given, settings

from tests.support.ingest.actions import CaptureActions
from tests.support.ingest.strategies import histories


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories)
async def test_the_events_of_a_day_rebuild_it(captures: CaptureActions, history: list[dict[str, Any]]) -> None:
    user = captures.one("select coalesce(max(user_id), 0) + 1 from schedule_ingest.capture_session")
    await captures.capture(*history, *history, user=user)
    rebuilt, known = captures.rebuilt(user)
    assert rebuilt == known
