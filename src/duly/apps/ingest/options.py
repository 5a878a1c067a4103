"""The settings of the capture worker, as a value."""

from dataclasses import dataclass, field

from duly.apps.ingest.states import DEFAULT_SCHEMA, States


@dataclass(frozen=True)
class CaptureOptions:
    """How an installation processes its sessions."""

    schema: str = DEFAULT_SCHEMA
    states: States = field(default_factory=States)
    due: str = "closed_at"  # the timestamp column that makes a session due
    idle_seconds: float = 25.0  # a session is closed this long after its last image
    summary_threshold: int = 3  # from this many changes on, one summary replaces the notifications
    simulated_seconds: float = 0.0
    read_seconds: float = 600.0  # timeout for a reader that does not limit its own time
    infrastructure_retry_seconds: float = 60.0  # then a session that hits infrastructure errors is released
    idle_log_every: int = 12  # iterations
    is_one_cycle: bool = False  # a missing privilege ends the run, and the result of every session is kept
