"""SQLAlchemy metadata of the ledger's tables: for drift checks only."""

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    literal,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import ENUM, INTERVAL, JSONB

from duly.backoff import BackoffPolicy
from duly.db.metadata import metadata
from duly.jobs.model import JobStatus

NOW = text("duly.clock()")
NEW_ID = text("gen_random_uuid()")

job_status = ENUM(*JobStatus, name="job_status", schema="ledger", metadata=metadata, create_type=False)
job_backoff_policy = ENUM(
    *BackoffPolicy, name="job_backoff_policy", schema="ledger", metadata=metadata, create_type=False
)

job = Table(
    "job",
    metadata,
    Column("id", Uuid, nullable=False, server_default=NEW_ID),
    Column("org_id", Uuid, nullable=False),
    Column("type", String(100), nullable=False),
    Column[str]("status", job_status, nullable=False, server_default="queued"),
    Column(
        "attempt",
        Integer,
        nullable=False,
        server_default="0",
        comment="Retries so far: 0 = the first attempt. Always starts - 1, written by the guard.",
    ),
    Column("max_attempts", Integer, nullable=False, server_default="5", comment="So many starts, then dead_letter."),
    Column[str]("backoff_policy", job_backoff_policy, nullable=False, server_default="exp"),
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("idempotency_key", String(255)),
    Column("requested_by", String(255)),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("started_at", DateTime(timezone=True), comment="When it was first started."),
    Column("finished_at", DateTime(timezone=True)),
    Column("last_error_code", String(64)),
    Column("last_error_message", String(2048)),
    Column("queue", Text, nullable=False, server_default="default"),
    Column("payload", JSONB, nullable=False, server_default="{}"),
    Column("result", JSONB),
    Column("run_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("timeout_seconds", Double),
    Column("backoff_base_seconds", Double, nullable=False, server_default="15"),
    Column("backoff_cap_seconds", Double, nullable=False, server_default="600"),
    Column(
        "starts",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="Claims that count; a hand-back and a snooze give theirs back, a redrive begins anew.",
    ),
    Column(
        "snoozes",
        BigInteger,
        nullable=False,
        server_default="0",
        comment='How often a handler said "later"; at 1000 that becomes a failure.',
    ),
    Column("lease_owner", Text, comment="Who holds it: the fence. A failed job keeps it for the move that follows."),
    Column("lease_expires_at", DateTime(timezone=True)),
    Column("settled_by", Text, comment="Who last let go of it, so that a repeated settle knows its own."),
    Column("cancel_requested_at", DateTime(timezone=True)),
    Column("stage", Text),
    Column("progress", BigInteger),
    Column(
        "progressed_at",
        DateTime(timezone=True),
        comment="When progress was last written into the log, which is not every time.",
    ),
    Column(
        "request_digest",
        LargeBinary,
        comment="What the key stands for: the same key with another request is refused.",
    ),
    Column("retain_for", INTERVAL, nullable=False, server_default="30 days"),
    Column(
        "retain_until",
        DateTime(timezone=True),
        comment="When it may be removed and its key is free again: retain_for after it finished.",
    ),
    Column("said", JSONB, comment="What the statement that moved it wanted its event to say."),
    Column("revision", BigInteger, nullable=False, server_default="0"),
    Column("moved_from", Text),
    PrimaryKeyConstraint("id"),
    Index("idx_job__job_org_id", "org_id"),
    Index("idx_job__org_id_created_at_desc", "org_id", text("created_at desc")),
    Index(
        "idx_job__org_id_idempotency_key",
        "org_id",
        "idempotency_key",
        unique=True,
        postgresql_where=text("idempotency_key is not null"),
    ),
    Index("idx_job__status_created_at", "status", "created_at"),
    Index(
        "idx_job__queue_type_priority_run_at_id",
        "queue",
        "type",
        text("priority desc"),
        "run_at",
        "id",
        postgresql_where=text("status = 'queued'"),
    ),
    Index("idx_job__retain_until", "retain_until", postgresql_where=text("retain_until is not null")),
    *(
        Index(
            f"idx_job__org_id_created_at_id_{status}",
            "org_id",
            text("created_at desc"),
            text("id desc"),
            postgresql_where=literal_column("status") == literal(status.value),
        )
        for status in JobStatus
    ),
    comment="A job: what is to be done, for whom, how hard to try, who holds it, and what came of it.",
    schema="ledger",
)

job_event = Table(
    "job_event",
    metadata,
    Column(
        "id",
        Uuid,
        nullable=False,
        server_default=NEW_ID,
        comment="Derived from job_id and seq, so that a job has one event of each number.",
    ),
    Column("job_id", Uuid, nullable=False),
    Column("ts", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("prev_status", String(50)),
    Column("next_status", String(50), nullable=False),
    Column("detail_json", JSONB),
    Column("seq", BigInteger, nullable=False, comment="The revision of the job that this brought about: 1, 2, 3."),
    Column("org_id", Uuid, nullable=False),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("job_id", "seq"),
    ForeignKeyConstraint(["job_id"], ["ledger.job.id"], ondelete="CASCADE"),
    Index("idx_job_event__job_id_ts", "job_id", "ts"),
    Index("idx_job_event__ts", "ts"),
    comment="One row per transition of a job, in order, written by its triggers and by nobody else.",
    schema="ledger",
)

job_limit = Table(
    "job_limit",
    metadata,
    Column("queue", Text, nullable=False, server_default="*"),
    Column("type", Text, nullable=False, server_default="*"),
    Column("most", BigInteger),
    Column("paused_at", DateTime(timezone=True)),
    Column("paused_by", Text),
    PrimaryKeyConstraint("queue", "type"),
    comment="Which queues and types rest, and how many jobs of a type may run at once; * is any.",
    schema="ledger",
)
