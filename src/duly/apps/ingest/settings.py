"""Settings of the application ingest: its worker and lease, the states of a session, OCR."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from duly.configuration import Accepts, Count, Seconds, SecondsOrZero, Section, check_distinct, setting
from duly.configuration.engine import OUR_SCHEMAS, EngineSettings

STATE_SETTINGS = ("pending_state", "processing_state", "done_state", "failed_state")

SchemaName = Annotated[
    str,
    Field(pattern=rf"\A(?!pg_)(?!(?:information_schema|{'|'.join(OUR_SCHEMAS)})\Z)[a-z_][a-z0-9_]{{0,62}}\Z"),
    Accepts(
        "1 to 63 of a-z, 0-9 and _, not beginning with a digit or pg_, and neither information_schema nor a schema of "
        f"ours ({', '.join(OUR_SCHEMAS)})"
    ),
]
StateName = Annotated[
    str,
    Field(pattern=r"\A[A-Za-z_][A-Za-z0-9_]{0,62}\Z"),
    Accepts("1 to 63 of a-z, A-Z, 0-9 and _, not beginning with a digit"),
]
Language = Annotated[str, Field(pattern=r"\A[a-z]{2,3}\Z"), Accepts("two or three of a-z, such as sv")]


class IngestSettings(EngineSettings):
    """Capture sessions: the worker, its lease, the states of a session, and OCR."""

    db_schema: SchemaName = setting(
        Section.INGEST, "DB_SCHEMA", default="schedule_ingest", description="The schema that holds the ingest tables."
    )
    fixture_payload_path: Path = setting(
        Section.INGEST,
        "FIXTURE_PAYLOAD_PATH",
        default=Path("fixtures/sample_schedule.json"),
        description="The JSON file that `fixture` mode reads; the default is found in the checkout too.",
    )
    simulated_work_seconds: SecondsOrZero = setting(
        Section.INGEST,
        "SIMULATED_WORK_SECONDS",
        default=0,
        description="Test only: seconds a worker sleeps before it settles.",
    )
    worker_input_mode: Literal["fixture", "ocr"] | None = setting(
        Section.INGEST,
        "WORKER_INPUT_MODE",
        unset="`ocr`; `fixture` for one cycle (`main.py`, `--once`)",
        description="Where a worker reads a session from: the file of `FIXTURE_PAYLOAD_PATH`, "
        "or with `ocr` the session's photographs.",
    )
    session_idle_seconds: SecondsOrZero = setting(
        Section.INGEST,
        "SESSION_IDLE_TIMEOUT_SECONDS",
        default=25,
        description="How long after its last image a session that was not closed is ready.",
    )
    ingest_poll_seconds: Seconds = setting(
        Section.INGEST,
        "WORKER_POLL_SECONDS",
        default=5,
        description="Poll interval of a long-running worker; `duly up` starts its own with 1.",
    )
    idle_log_every: Count = setting(
        Section.INGEST,
        "WORKER_IDLE_LOG_EVERY",
        default=12,
        description="Log the first and then every Nth empty poll.",
    )
    summary_threshold: Count = setting(
        Section.INGEST,
        "NOTIFICATION_SUMMARY_THRESHOLD",
        default=3,
        description="From this many changes in one session on, one summary replaces the messages.",
    )
    enable_chaos_parser: bool = setting(
        Section.INGEST,
        "ENABLE_CHAOS_PARSER",
        default=False,
        description="Test only: add OCR-like noise before canonicalisation, which changes no day.",
    )
    chaos_seed: int = setting(
        Section.INGEST, "CHAOS_SEED", default=0, description="Random seed for `ENABLE_CHAOS_PARSER`."
    )
    ocr_engine: Literal["auto", "rapidocr", "tesseract"] = setting(
        Section.OCR,
        "OCR_ENGINE",
        default="auto",
        description="The OCR engine: `rapidocr`, checked by Tesseract where it has the language; `tesseract` "
        "alone, which needs less; `auto` uses the first that is installed.",
    )
    ocr_language: Language = setting(
        Section.OCR, "OCR_LANG", default="sv", description="The language of the photographs, for Tesseract."
    )
    ocr_tessdata: Path | None = setting(
        Section.OCR,
        "TESSDATA_PREFIX",
        unset="the usual places",
        description="The directory with Tesseract's languages, such as `swe.traineddata`.",
    )
    ocr_default_year: Annotated[int | None, Field(ge=2000, le=2199)] = setting(
        Section.OCR,
        "OCR_DEFAULT_YEAR",
        unset="the year it is, in UTC",
        description="The year of a date that is shown without one.",
    )
    ocr_seconds: Seconds = setting(
        Section.OCR, "OCR_IMAGE_SECONDS", default=120, description="Timeout for reading one photograph."
    )
    ocr_memory_mb: Annotated[int, Field(ge=512, le=1_048_576)] = setting(
        Section.OCR,
        "OCR_MEMORY_MB",
        default=4096,
        description="Address space limit, in MiB, of the process that reads photographs; about a quarter of it "
        "is memory.",
    )
    lease_timeout_seconds: Seconds = setting(
        Section.LEASE,
        "LEASE_TIMEOUT_SECONDS",
        default=300,
        description="Lease length; without a heartbeat another worker may claim the session after it.",
    )
    enable_lease_heartbeat: bool = setting(
        Section.LEASE, "ENABLE_LEASE_HEARTBEAT", default=True, description="Whether a worker renews its lease."
    )
    lease_heartbeat_seconds: Seconds = setting(
        Section.LEASE,
        "LEASE_HEARTBEAT_SECONDS",
        default=10,
        description="How often a worker renews its lease; while it does, less than a third of `LEASE_TIMEOUT_SECONDS`.",
    )
    pending_state: StateName = setting(
        Section.STATE, "PENDING_STATE", "OPEN_STATE", default="pending", description="Waiting for a worker."
    )
    processing_state: StateName = setting(
        Section.STATE, "PROCESSING_STATE", default="processing", description="Claimed by a worker."
    )
    done_state: StateName = setting(
        Section.STATE, "DONE_STATE", "PROCESSED_STATE", default="done", description="Finished."
    )
    failed_state: StateName = setting(
        Section.STATE, "FAILED_STATE", default="failed", description="Failed; all four must differ."
    )

    @field_validator("lease_heartbeat_seconds")
    @classmethod
    def check_heartbeat_below_third_of_lease(cls, heartbeat: float, info: ValidationInfo) -> float:
        """Refuse a heartbeat that leaves no room for two late ones before the lease expires."""
        timeout = info.data.get("lease_timeout_seconds")
        if timeout and info.data.get("enable_lease_heartbeat") and heartbeat >= timeout / 3:
            raise ValueError(
                f"must be less than a third of LEASE_TIMEOUT_SECONDS={timeout:.10g}; set it below {timeout / 3:.10g}, "
                "raise LEASE_TIMEOUT_SECONDS, or set ENABLE_LEASE_HEARTBEAT=false"
            )
        return heartbeat

    @field_validator(*STATE_SETTINGS)
    @classmethod
    def check_state_names_distinct(cls, value: str, info: ValidationInfo) -> str:
        """Refuse two states of the same name."""
        return check_distinct(cls, STATE_SETTINGS, value, info)
