"""Orgs, users and API keys as SQLAlchemy tables; used only to detect schema drift."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    Column,
    Computed,
    DateTime,
    ForeignKeyConstraint,
    Identity,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    Time,
    UniqueConstraint,
    Uuid,
    text,
)

from duly.db.metadata import metadata

NOW = text("duly.clock()")
NEW_ID = text("gen_random_uuid()")

orgs = Table(
    "orgs",
    metadata,
    Column("id", Uuid, nullable=False, server_default=NEW_ID),
    Column("name", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("name"),
    CheckConstraint("name = btrim(name) and char_length(name) between 1 and 200", name="name"),
    comment="A tenant: whose jobs and keys these are.",
    schema="duly",
)

users = Table(
    "users",
    metadata,
    Column("id", BigInteger, Identity(always=True), nullable=False),
    Column("uid", Text, nullable=False),
    Column("telegram_id", BigInteger),
    Column("zone", Text, nullable=False, server_default="UTC"),
    Column("language", Text, nullable=False, server_default="en"),
    Column("currency", Text, nullable=False, server_default="EUR"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("quiet_from", Time, comment="From this time of their day on nobody reminds them, until quiet_until."),
    Column("quiet_until", Time),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("uid"),
    UniqueConstraint("telegram_id"),
    comment="The one table of people: who a Telegram id, an author id, a scheduler's user is.",
    schema="user",
)

calendars = Table(
    "calendars",
    metadata,
    Column("user_id", BigInteger, nullable=False),
    Column("token_sha256", LargeBinary, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    PrimaryKeyConstraint("user_id"),
    UniqueConstraint("token_sha256"),
    ForeignKeyConstraint(["user_id"], ["user.users.id"], ondelete="CASCADE"),
    comment="Whose calendar an address opens: a new address takes the place of the old one.",
    schema="user",
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("user_id", BigInteger, nullable=False),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    PrimaryKeyConstraint("user_id"),
    ForeignKeyConstraint(["user_id"], ["user.users.id"], ondelete="CASCADE"),
    comment="Where messages by webhook go, and the secret that signs them.",
    schema="user",
)

apprise_addresses = Table(
    "apprise_addresses",
    metadata,
    Column("user_id", BigInteger, nullable=False),
    Column("url", Text, nullable=False),
    Column("service", Text, Computed("split_part(url, '://', 1)", persisted=True), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    PrimaryKeyConstraint("user_id"),
    ForeignKeyConstraint(["user_id"], ["user.users.id"], ondelete="CASCADE"),
    comment="Where messages by apprise go. The address holds passwords: "
    "only who sends may read it, everybody else its service.",
    schema="user",
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Uuid, nullable=False, server_default=NEW_ID),
    Column("name", Text, nullable=False),
    Column("prefix", Text, nullable=False),
    Column("secret_sha256", LargeBinary, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("org_id", Uuid),
    Column("user_id", BigInteger),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("expires_at", DateTime(timezone=True)),
    Column("revoked_at", DateTime(timezone=True)),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("prefix"),
    ForeignKeyConstraint(["org_id"], ["duly.orgs.id"], ondelete="RESTRICT"),
    ForeignKeyConstraint(["user_id"], ["user.users.id"], ondelete="RESTRICT"),
    Index(None, "org_id"),
    Index(None, "user_id"),
    comment="A key is shown once; here lie its prefix, for finding it, and its hash, for proving it.",
    schema="duly",
)
