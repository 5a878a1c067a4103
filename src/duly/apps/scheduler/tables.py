"""Schedules, runs and expenses as SQLAlchemy tables; used only to detect schema drift."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from duly.db.metadata import metadata

NOW = text("duly.clock()")
TIME = DateTime(timezone=True)
AMOUNT = Numeric(20, 6)

jobs = Table(
    "jobs",
    metadata,
    Column("id", BigInteger, Identity(), nullable=False),
    Column("user_id", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column(
        "rule",
        Text,
        nullable=False,
        comment="`cron:` and five fields, or JSON; in its own zone, else the person's, else UTC.",
    ),
    Column("first_run_at", TIME, nullable=False),
    Column("advance_minutes", Integer, nullable=False, server_default="0"),
    Column("channel", Text, nullable=False, server_default="telegram"),
    Column("status", Text, nullable=False, server_default="active"),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
    Column(
        "catch_up",
        Text,
        nullable=False,
        server_default="latest",
        comment="Of periods that were missed the latest is reminded of, or all, or none.",
    ),
    Column("request_key", Text),
    Column("request_digest", LargeBinary),
    Column("revision", BigInteger, nullable=False, server_default="0"),
    Column("moved_from", Text),
    PrimaryKeyConstraint("id"),
    ForeignKeyConstraint(["user_id"], ["user.users.id"], ondelete="RESTRICT"),
    UniqueConstraint("user_id", "request_key"),
    Index("idx_jobs__user_id", "user_id"),
    comment="What recurs: whose, by which rule, how long before they are reminded, and where.",
    schema="scheduler",
)

expense_templates = Table(
    "expense_templates",
    metadata,
    Column("job_id", BigInteger, nullable=False),
    Column("amount", AMOUNT, nullable=False),
    Column("currency", Text, nullable=False),
    Column("category", Text),
    Column("merchant", Text),
    Column("note", Text),
    PrimaryKeyConstraint("job_id"),
    ForeignKeyConstraint(["job_id"], ["scheduler.jobs.id"], ondelete="CASCADE"),
    comment="What is booked when a run of a schedule is confirmed.",
    schema="scheduler",
)

job_plans = Table(
    "job_plans",
    metadata,
    Column("job_id", BigInteger, nullable=False),
    Column("state", Text, nullable=False, server_default="waiting"),
    Column("plan_at", TIME, comment="When more runs are to be made; null while it is paused, and at its end."),
    Column(
        "planned_until",
        TIME,
        comment="Every firing up to this instant has its run, or lies in scheduler.missed_ranges.",
    ),
    Column("next_at", TIME, comment="The first firing that has no run yet."),
    Column("paused_at", TIME, comment="When it was paused last."),
    Column(
        "skip_before",
        TIME,
        comment="When it was resumed last: firings before this were missed, from paused_at on because it was paused.",
    ),
    Column("last_error", Text),
    Column("starts", BigInteger, nullable=False, server_default="0"),
    Column("lease_owner", Text),
    Column("lease_expires_at", TIME),
    Column("settled_by", Text),
    Column(
        "is_closing",
        Boolean,
        nullable=False,
        server_default="false",
        comment="It is archived, and a worker still has open runs of it to cancel.",
    ),
    PrimaryKeyConstraint("job_id"),
    ForeignKeyConstraint(["job_id"], ["scheduler.jobs.id"], ondelete="CASCADE"),
    Index(None, "plan_at", "job_id", postgresql_where=text("state = 'waiting'")),
    Index(None, "job_id", postgresql_where=text("state = 'planning'")),
    Index("idx_job_plans__is_closing", "job_id", postgresql_where=text("is_closing")),
    comment="How far the runs of a schedule are made, and when the next are: what planners hold.",
    schema="scheduler",
)

missed_ranges = Table(
    "missed_ranges",
    metadata,
    Column("job_id", BigInteger, nullable=False),
    Column("from_at", TIME, nullable=False),
    Column("until_at", TIME, nullable=False),
    Column("rule", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("first_run_at", TIME, nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("job_id", "from_at"),
    ForeignKeyConstraint(["job_id"], ["scheduler.jobs.id"], ondelete="CASCADE"),
    comment=(
        "Missed firings that have no run of their own, because very many were missed: all of the rule from from_at to "
        "before until_at. The rule, the person's zone and first_run_at are as they were, so that each period can be "
        "named."
    ),
    schema="scheduler",
)

job_run_keys = Table(
    "job_run_keys",
    metadata,
    Column("job_run_id", BigInteger, nullable=False),
    Column("job_id", BigInteger, nullable=False),
    Column("period_key", Text, nullable=False),
    Column("scheduled_at", TIME, nullable=False),
    PrimaryKeyConstraint("job_run_id"),
    UniqueConstraint("job_id", "period_key", name="uq_job_runs__job_period"),
    ForeignKeyConstraint(["job_id"], ["scheduler.jobs.id"], ondelete="CASCADE"),
    comment="Which run a schedule has in which period, and in which month it lies.",
    schema="scheduler",
)

job_runs = Table(
    "job_runs",
    metadata,
    Column("id", BigInteger, Identity(), nullable=False),
    Column("job_id", BigInteger, nullable=False),
    Column("period_key", Text, nullable=False),
    Column("scheduled_at", TIME, nullable=False),
    Column("sent_at", TIME),
    Column("status", Text, nullable=False, server_default="pending"),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
    Column(
        "remind_at",
        TIME,
        comment=(
            "When to remind of it; null once its message is written (reminder_id), and when nobody is to be reminded. "
            "An insert without it gets scheduled_at less the advance_minutes of its schedule."
        ),
    ),
    Column("reminder_id", Uuid, comment="The latest message about it, in duly.outbox."),
    Column("reason", Text, comment="Why it was skipped or cancelled by nobody's answer."),
    Column("revision", BigInteger, nullable=False, server_default="0"),
    Column("moved_from", Text),
    PrimaryKeyConstraint("id", "scheduled_at"),
    ForeignKeyConstraint(["job_id"], ["scheduler.jobs.id"], ondelete="CASCADE"),
    Index("idx_job_runs__job_scheduled", "job_id", "scheduled_at"),
    Index("idx_job_runs__scheduled_at", "scheduled_at", postgresql_where=text("status = 'pending'")),
    Index(None, "job_id", "status", postgresql_where=text("status IN ('pending', 'sent', 'snoozed')")),
    Index(None, "remind_at", "id", postgresql_where=text("remind_at IS NOT NULL")),
    comment="One period of a schedule: when it is, when the person was told, and how it ended.",
    schema="scheduler",
    postgresql_partition_by="RANGE (scheduled_at)",
)

reminders = Table(
    "reminders",
    metadata,
    Column("id", BigInteger, Identity(), nullable=False),
    Column("job_run_id", BigInteger, nullable=False),
    Column("sent_at", TIME, nullable=False),
    Column("payload", JSONB),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("id"),
    ForeignKeyConstraint(["job_run_id"], ["scheduler.job_run_keys.job_run_id"], ondelete="CASCADE"),
    Index("idx_reminders__job_run_id", "job_run_id", "sent_at"),
    comment="Every message that went out about a run: when, where, and what it said.",
    schema="scheduler",
)

confirmations = Table(
    "confirmations",
    metadata,
    Column("id", BigInteger, Identity(), nullable=False),
    Column("job_run_id", BigInteger, nullable=False),
    Column("action", Text, nullable=False),
    Column("confirmed_at", TIME, nullable=False, server_default=NOW),
    Column("idempotency_key", Text, nullable=False),
    Column("payload", JSONB),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("updated_at", TIME, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("id"),
    ForeignKeyConstraint(["job_run_id"], ["scheduler.job_run_keys.job_run_id"], ondelete="CASCADE"),
    UniqueConstraint("job_run_id", "idempotency_key", name="uq_confirmations__run_idem"),
    Index("idx_confirmations__run_confirmed", "job_run_id", text("confirmed_at desc")),
    comment="What people answered, and with which key: the same key is the same answer.",
    schema="scheduler",
)

expenses = Table(
    "expenses",
    metadata,
    Column("id", BigInteger, Identity(), nullable=False),
    Column("user_id", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("amount", AMOUNT, nullable=False),
    Column("currency", Text, nullable=False),
    Column("category", Text),
    Column("merchant", Text),
    Column("note", Text),
    Column("occurred_at", TIME, nullable=False),
    Column("source_ref", Text, nullable=False),
    Column("reverses", BigInteger),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("source_ref"),
    UniqueConstraint("reverses"),
    ForeignKeyConstraint(["user_id"], ["user.users.id"], ondelete="RESTRICT"),
    ForeignKeyConstraint(["reverses"], ["expense.expenses.id"], ondelete="RESTRICT"),
    Index("idx_expenses__user_id_occurred_at", "user_id", "occurred_at", "id"),
    comment="What was spent, once for each source; an entry that was wrong is reversed by another.",
    schema="expense",
)
