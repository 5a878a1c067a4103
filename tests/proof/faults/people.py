"""Who there is in a world of faults."""

from uuid import UUID

ORG = UUID("0190c0de-0000-7000-8000-000000000001")
INGEST = "schedule_ingest"
AUTHORS = [f"author{nth}" for nth in range(4000)]
CAPTURERS = list(range(7001, 7025))
REMINDED = [f"person{nth}" for nth in range(24)]
