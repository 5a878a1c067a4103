"""What the application ingest brings."""

from pathlib import Path

from duly.applications import Application, Command, Machine

INGEST = Application(
    name="ingest",
    directory=Path(__file__).parent,
    schemas=("schedule_ingest",),
    settings="duly.apps.ingest.settings:IngestSettings",
    machines=(
        Machine("capture", "schedule_ingest.capture_session", "state", stays=("pending", "processing")),
        Machine("notification", "schedule_ingest.schedule_notification", "delivery", stays=("sending",)),
    ),
    commands=(
        Command(
            "ingest",
            "duly.apps.ingest.cli.ingest",
            "Photographed work schedules: versions, changes and notifications.",
        ),
    ),
    http="duly.apps.ingest.http:HTTP",
    works={
        "ingest": "duly.apps.ingest.build_work:build_capture_work",
        "notifications": "duly.apps.ingest.build_work:build_notification_work",
    },
    checks={},
    computed_invariants={"versions_have_their_hash": "duly.apps.ingest.hashes:find_wrong_hashes"},
    calendar_events="duly.apps.ingest.calendar_events:list_events",
)
