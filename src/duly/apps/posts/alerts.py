"""Telling somebody when a promise is broken, once per breach, and when it is kept again.

    kept ---not met---> broken, told: slo.breached 1
     ^                    |
     +-------met----------+     told: slo.recovered 1; the next breach is the second

Workers look once a minute, one of them for all: whoever takes the row of a promise. What it finds is written together
with the message that tells of it, and the number of the breach is the message's key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from duly.apps.posts.slo import Objective, objectives_now
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, get_rows
from duly.logging import get_log

__all__ = ["LOOK_SECONDS", "OPERATOR", "Alerts"]

SQL = load_queries(__file__, "alerts.sql")
LOOK_SECONDS = 60.0
OPERATOR = "operator"  # whoever reads the console

log = get_log("duly.posts")


@dataclass(frozen=True, slots=True)
class Alerts:
    """Who is told, and by which channel."""

    channel: str = "console"
    recipient: str = OPERATOR

    async def look(self, connection: Connection) -> int:
        """See how the promises stand that nobody looked at for a minute; how many messages that made."""
        names = await take_objectives(connection)
        if not names:
            return 0
        found = [each for each in await objectives_now(connection) if each.name in names]
        written = await write_alerts(connection, found, self.channel, self.recipient)
        for row in written:
            log.warning(row["kind"], **{name: row["payload"][name] for name in ("slo", "measured", "bad", "breach")})
        return len(written)


async def take_objectives(connection: Connection) -> list[str]:
    """The promises that are ours to look at, until the transaction ends."""
    return [row["name"] for row in await get_rows(connection, SQL.take_objectives, seconds=LOOK_SECONDS)]


async def write_alerts(
    connection: Connection, found: Sequence[Objective], channel: str, recipient: str
) -> Sequence[Row]:
    """Note how promises stand; the messages about those that turned."""
    return await get_rows(
        connection,
        SQL.write_alerts,
        names=[each.name for each in found],
        met=[each.is_met for each in found],
        payloads=[Jsonb(payload_of(each)) for each in found],
        channel=channel,
        recipient=recipient,
    )


def payload_of(found: Objective) -> dict[str, Any]:
    """The message about a promise, as the outbox keeps it."""
    state = "A promise is kept again" if found.is_met else "A promise is broken"
    measured = "nothing" if found.measured is None else f"{found.measured:.10g}"
    return {
        "text": f"{state}: {found.promise}.\nMeasured: {measured}, of {found.target:.10g}; "
        f"{found.bad} of {found.events} bad. See: duly slo",
        "slo": found.name,
        "promise": found.promise,
        "target": found.target,
        "measured": found.measured,
        "events": found.events,
        "bad": found.bad,
    }
