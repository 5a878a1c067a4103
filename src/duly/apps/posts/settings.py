"""Settings of the application posts."""

from typing import Annotated, Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from duly.configuration import Accepts, Count, Seconds, Section, WebAddress, setting
from duly.configuration.engine import EngineSettings

OPENAI_RETRIES, OPENAI_WAIT_SECONDS = 1, 2.0  # retries of a model call, and the pause before each
STUCK_SECONDS = 900  # the contract: no post is in PROCESSING for longer


class PostsSettings(EngineSettings):
    """Posts: lease, analyzer, alerts."""

    posts_slots: Count = setting(
        Section.POSTS,
        "DULY_POSTS_SLOTS",
        default=50,
        description="Posts that a worker analyses at once, and so the concurrency of analyzer calls.",
    )
    posts_lease_seconds: Seconds = setting(
        Section.POSTS,
        "DULY_POSTS_LEASE_SECONDS",
        default=60,
        description="Lease length of a post; together with `DULY_SWEEP_SECONDS` less than 15 minutes, "
        "after which a post counts as stuck.",
    )
    posts_analyzer_seconds: Seconds = setting(
        Section.POSTS,
        "DULY_POSTS_ANALYZER_SECONDS",
        default=20,
        description="Timeout of the analyzer; then the post is released with the fallback.",
    )
    posts_analyzer: Literal["rules", "openai"] = setting(
        Section.POSTS,
        "DULY_POSTS_ANALYZER",
        "POSTS_ANALYZER",
        default="rules",
        description="What analyses posts: the built-in rules, or a model behind an OpenAI-compatible API, which then "
        "is sent captions and small photographs.",
    )
    openai_base_url: WebAddress | None = setting(
        Section.POSTS,
        "OPENAI_BASE_URL",
        unset="OpenAI's own",
        description="The address of that API, for example http://localhost:11434/v1.",
    )
    openai_api_key: SecretStr | None = setting(
        Section.POSTS,
        "OPENAI_API_KEY",
        unset="none",
        description="Its API key; OpenAI's own server needs one.",
    )
    openai_model: Annotated[
        str | None, Field(pattern=r"\A[!-~]{1,200}\Z"), Accepts("1 to 200 visible ASCII characters")
    ] = setting(Section.POSTS, "OPENAI_MODEL", unset="none", description="The model; it must accept images.")
    openai_seconds: Seconds = setting(
        Section.POSTS,
        "DULY_OPENAI_SECONDS",
        default=8,
        description="Timeout of one try; two tries and 2 s between them must fit into "
        "`DULY_POSTS_ANALYZER_SECONDS` and into `DULY_POSTS_LEASE_SECONDS`.",
    )
    alert_channel: Annotated[str, Field(pattern=r"\A[a-z][a-z0-9_]{0,31}\Z"), Accepts("the name of a channel")] = (
        setting(
            Section.POSTS,
            "DULY_ALERT_CHANNEL",
            default="console",
            description="Channel for alerts when an objective of `duly slo` is missed, and when it is met again.",
        )
    )
    alert_recipient: Annotated[
        str | None, Field(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}\Z"), Accepts("the uid of a person")
    ] = setting(
        Section.POSTS,
        "DULY_ALERT_RECIPIENT",
        unset="`operator`, on the console",
        description="Recipient of alerts: the uid of a person with an address on that channel.",
    )

    @field_validator("posts_lease_seconds")
    @classmethod
    def check_lease_and_sweep_below_stuck_limit(cls, lease: float, info: ValidationInfo) -> float:
        """Refuse a lease with which a dead worker's post would count as stuck before it is swept."""
        sweep = info.data.get("sweep_seconds")
        if sweep and lease + sweep >= STUCK_SECONDS:
            raise ValueError(
                f"with DULY_SWEEP_SECONDS={sweep:.10g} a post could be held for {lease + sweep:.10g} s, and one "
                f"that is held for {STUCK_SECONDS} s counts as stuck; make the two together less than that"
            )
        return lease

    @field_validator("openai_model")
    @classmethod
    def check_model_and_key(cls, model: str | None, info: ValidationInfo) -> str | None:
        """Require a model, and a key for OpenAI's own server."""
        if info.data.get("posts_analyzer") != "openai":
            return model
        if model is None:
            raise ValueError("DULY_POSTS_ANALYZER=openai needs a model; set OPENAI_MODEL, or DULY_POSTS_ANALYZER=rules")
        if not info.data.get("openai_api_key") and not info.data.get("openai_base_url"):
            raise ValueError("DULY_POSTS_ANALYZER=openai needs OPENAI_API_KEY, or OPENAI_BASE_URL of another server")
        return model

    @field_validator("openai_seconds")
    @classmethod
    def check_tries_fit_into_limits(cls, seconds: float, info: ValidationInfo) -> float:
        """Refuse tries that outlast the worker's own limits, which would hide their error code."""
        total = seconds * (OPENAI_RETRIES + 1) + OPENAI_WAIT_SECONDS
        for variable, limit in (
            ("DULY_POSTS_ANALYZER_SECONDS", info.data.get("posts_analyzer_seconds")),
            ("DULY_POSTS_LEASE_SECONDS", info.data.get("posts_lease_seconds")),
        ):
            if info.data.get("posts_analyzer") == "openai" and limit and total >= limit:
                raise ValueError(
                    f"{OPENAI_RETRIES + 1} tries of {seconds:.10g} s and {OPENAI_WAIT_SECONDS:.10g} s between them "
                    f"take {total:.10g} s, which must be less than {variable}={limit:.10g}; set it "
                    f"below {(limit - OPENAI_WAIT_SECONDS) / (OPENAI_RETRIES + 1):.10g}, or raise the other"
                )
        return seconds

    @field_validator("alert_recipient")
    @classmethod
    def check_alert_recipient(cls, recipient: str | None, info: ValidationInfo) -> str | None:
        """Require a recipient for every channel but the console."""
        channel = info.data.get("alert_channel", "console")
        if recipient is None and channel != "console":
            raise ValueError(
                f"DULY_ALERT_CHANNEL={channel} needs a recipient; set DULY_ALERT_RECIPIENT to the uid of a person"
            )
        return recipient
