"""Alerts on service level objectives: one message when an objective is breached, and one when it recovers.

    met ---not met---> breached, message: slo.breached 1
     ^                    |
     +-------met----------+     message: slo.recovered 1; the next breach is number 2

Workers check the objectives once a minute: the worker that locks the row of an objective checks it for all. The result
is written together with the message, whose deduplication key is the number of the breach.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from duly.apps.posts.slo import Objective, measure_objectives
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, get_rows
from duly.logging import get_log

SQL = load_queries(__file__, "alerts.sql")
CHECK_SECONDS = 60.0
OPERATOR = "operator"  # the recipient of messages on the console

log = get_log("duly.posts")


@dataclass(frozen=True, slots=True)
class Alerts:
    """Sends alerts to one recipient by one channel."""

    channel: str = "console"
    recipient: str = OPERATOR

    async def check(self, connection: Connection) -> int:
        """Measure the objectives that were not checked for a minute; return how many messages were written."""
        names = await claim_objectives(connection)
        if not names:
            return 0
        objectives = [each for each in await measure_objectives(connection) if each.name in names]
        written = await write_alerts(connection, objectives, self.channel, self.recipient)
        for row in written:
            log.warning(row["kind"], **{name: row["payload"][name] for name in ("slo", "measured", "bad", "breach")})
        return len(written)


async def claim_objectives(connection: Connection) -> list[str]:
    """Lock the objectives that are due for a check until the transaction ends; return their names."""
    return [row["name"] for row in await get_rows(connection, SQL.claim_objectives, seconds=CHECK_SECONDS)]


async def write_alerts(
    connection: Connection, objectives: Sequence[Objective], channel: str, recipient: str
) -> Sequence[Row]:
    """Record the state of objectives; return the messages written about those that changed."""
    return await get_rows(
        connection,
        SQL.write_alerts,
        names=[each.name for each in objectives],
        met=[each.is_met for each in objectives],
        payloads=[Jsonb(alert_payload(each)) for each in objectives],
        channel=channel,
        recipient=recipient,
    )


def alert_payload(objective: Objective) -> dict[str, Any]:
    """Return the outbox payload of an alert."""
    state = "Objective met again" if objective.is_met else "Objective breached"
    measured = "nothing" if objective.measured is None else f"{objective.measured:.10g}"
    return {
        "text": f"{state}: {objective.promise}.\nMeasured: {measured}, target: {objective.target:.10g}; "
        f"{objective.bad} of {objective.events} bad. See: duly slo",
        "slo": objective.name,
        "promise": objective.promise,
        "target": objective.target,
        "measured": objective.measured,
        "events": objective.events,
        "bad": objective.bad,
    }
