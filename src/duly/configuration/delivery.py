"""Settings of the outbox, of Telegram, and of the storage of images."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from duly.configuration import Accepts, Count, Part, Seconds, Section, WebAddress, setting

Bucket = Annotated[
    str | None,
    Field(pattern=r"\A[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z"),
    Accepts("3 to 63 of a-z, 0-9, . and -, beginning and ending with a letter or digit"),
]
ChannelNames = Annotated[
    str,
    Field(pattern=r"\A(?:[a-z][a-z0-9_]*(?:,[a-z][a-z0-9_]*)*)?\Z"),
    Accepts("names of channels with commas between, such as telegram,webhook"),
]
TelegramIds = Annotated[
    str,
    Field(pattern=r"\A(?:[1-9]\d{0,18}(?:,[1-9]\d{0,18})*)?\Z"),
    Accepts("Telegram ids with commas between, such as 42,43"),
]
Region = Annotated[str, Field(pattern=r"\A[a-z0-9-]{1,32}\Z"), Accepts("1 to 32 of a-z, 0-9 and -")]
KeyPrefix = Annotated[
    str,
    Field(pattern=r"\A(?:[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}(?:/[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}){0,7}/?)?\Z"),
    Accepts("up to 8 names of A-Z, a-z, 0-9, ., _ and -, with / between them"),
]
TELEGRAM_CHARACTERS = "of A-Z, a-z, 0-9, _ and -"


class OutboxSettings(Part):
    """The sender of messages, and its channels."""

    sender_slots: Count = setting(
        Section.DELIVERY, "DULY_SENDER_SLOTS", default=100, description="Messages that a worker sends at once."
    )
    sender_lease_seconds: Seconds = setting(
        Section.DELIVERY,
        "DULY_SENDER_LEASE_SECONDS",
        default=60,
        description="Lease length of a message. One that was handed to a transport by then, and "
        "is not settled, is uncertain. A send may take half of it.",
    )
    sender_off: ChannelNames = setting(
        Section.DELIVERY,
        "DULY_SENDER_OFF",
        default="",
        unset="every channel is on",
        description="Channels that duly does not send on; their messages wait for a sender of yours.",
    )
    sender_retain_days: Count = setting(
        Section.DELIVERY,
        "DULY_SENDER_RETAIN_DAYS",
        default=90,
        description="Days that a sent or failed message is kept with its history.",
    )
    webhook_seconds: Seconds = setting(
        Section.DELIVERY, "DULY_WEBHOOK_SECONDS", default=10, description="Timeout of a webhook or an apprise service."
    )
    webhook_allow_private: bool = setting(
        Section.DELIVERY,
        "DULY_WEBHOOK_ALLOW_PRIVATE",
        default=False,
        description="Allow webhooks and apprise to send to addresses that are not public: this machine and "
        "its networks.",
    )


class TelegramSettings(Part):
    """The Telegram bot and channel."""

    telegram_token: SecretStr | None = setting(
        Section.TELEGRAM,
        "TELEGRAM_BOT_TOKEN",
        unset="there is no bot; what is meant for Telegram waits, and fails after 7 days",
        description="The bot token from BotFather. Buttons are signed with it: a new token invalidates old ones.",
    )
    telegram_on_console: bool = setting(
        Section.TELEGRAM,
        "DULY_TELEGRAM_ON_CONSOLE",
        default=False,
        description="Without a token, send what is meant for Telegram by the console instead of letting it wait. "
        "`duly up` on the embedded server turns this on for its worker.",
    )
    telegram_api_url: WebAddress = setting(
        Section.TELEGRAM,
        "TELEGRAM_API_URL",
        default="https://api.telegram.org",
        description="The address of the Bot API: Telegram's own, or a server of yours.",
    )
    telegram_webhook_url: WebAddress | None = setting(
        Section.TELEGRAM,
        "TELEGRAM_WEBHOOK_URL",
        unset="the bot fetches updates by long polling",
        description="Public address of our API for Telegram's webhook, ending in /telegram/hook.",
    )
    telegram_webhook_secret: SecretStr | None = setting(
        Section.TELEGRAM,
        "TELEGRAM_WEBHOOK_SECRET",
        unset="no update is taken by webhook",
        description="Secret that Telegram sends with every update to authenticate itself.",
    )
    telegram_allowed: TelegramIds = setting(
        Section.TELEGRAM,
        "TELEGRAM_ALLOWED_IDS",
        default="",
        unset="everyone",
        description="The Telegram ids that the bot serves; to others it replies that it is private.",
    )
    telegram_newcomers: bool = setting(
        Section.TELEGRAM,
        "TELEGRAM_NEWCOMERS",
        default=True,
        description=(
            "Whether an unknown sender becomes a person; otherwise they need a link from `duly people link-telegram`."
        ),
    )
    telegram_seconds: Seconds = setting(
        Section.TELEGRAM,
        "TELEGRAM_SECONDS",
        default=10,
        description="Timeout of the Bot API; a message without an answer is uncertain.",
    )
    telegram_poll_seconds: Seconds = setting(
        Section.TELEGRAM, "TELEGRAM_POLL_SECONDS", default=25, description="Long-polling timeout for updates."
    )

    @field_validator("telegram_token")
    @classmethod
    def check_bot_token(cls, token: SecretStr | None) -> SecretStr | None:
        """Refuse what is not a bot token, before the first message fails."""
        if token and not re.fullmatch(r"[0-9]{1,20}:[A-Za-z0-9_-]{30,100}", token.get_secret_value()):
            raise ValueError("must be a bot's token as BotFather gives it: a number, a colon and some 35 characters")
        return token

    @field_validator("telegram_webhook_secret")
    @classmethod
    def check_webhook_secret(cls, secret: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        """Require a valid secret for a webhook: its address is public."""
        if secret and not re.fullmatch(r"[A-Za-z0-9_-]{1,256}", secret.get_secret_value()):
            raise ValueError(f"must be 1 to 256 {TELEGRAM_CHARACTERS}, which is what Telegram takes")
        if secret is None and info.data.get("telegram_webhook_url"):
            raise ValueError(
                "TELEGRAM_WEBHOOK_URL is set and public; set TELEGRAM_WEBHOOK_SECRET to a long random word "
                f"{TELEGRAM_CHARACTERS}"
            )
        return secret


class StorageSettings(Part):
    """Where images are stored."""

    objects_directory: Path | None = setting(
        Section.OBJECTS,
        "DULY_OBJECTS_DIR",
        unset="`objects` in `DULY_HOME`",
        description="The directory for images when no bucket is configured.",
    )
    objects_bucket: Bucket = setting(
        Section.OBJECTS,
        "R2_BUCKET",
        "S3_BUCKET",
        "AWS_BUCKET",
        unset="a directory",
        description="The bucket of an S3-compatible store for images; it needs both keys.",
    )
    objects_endpoint: str | None = setting(
        Section.OBJECTS,
        "R2_ENDPOINT_URL",
        "S3_ENDPOINT_URL",
        "AWS_ENDPOINT_URL",
        unset="Amazon's own",
        description="The address of the store, for example https://<account>.r2.cloudflarestorage.com.",
    )
    objects_key_id: str | None = setting(
        Section.OBJECTS,
        "R2_ACCESS_KEY_ID",
        "S3_ACCESS_KEY_ID",
        "AWS_ACCESS_KEY_ID",
        unset="none",
        description="The access key id for the bucket.",
    )
    objects_secret: SecretStr | None = setting(
        Section.OBJECTS,
        "R2_SECRET_ACCESS_KEY",
        "S3_SECRET_ACCESS_KEY",
        "AWS_SECRET_ACCESS_KEY",
        unset="none",
        description="The secret access key.",
    )
    objects_region: Region = setting(
        Section.OBJECTS, "R2_REGION", "S3_REGION", "AWS_REGION", default="auto", description="The region of the bucket."
    )
    objects_prefix: KeyPrefix = setting(
        Section.OBJECTS,
        "R2_KEY_PREFIX",
        "S3_KEY_PREFIX",
        default="",
        unset="empty",
        description="Prefix of every object name in the bucket.",
    )

    @field_validator("objects_secret")
    @classmethod
    def check_key_is_complete(cls, secret: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        """Require a complete key for a bucket."""
        if info.data.get("objects_bucket") and not (info.data.get("objects_key_id") and secret):
            raise ValueError("R2_BUCKET is set, and needs both R2_ACCESS_KEY_ID and R2_SECRET_ACCESS_KEY; set them")
        return secret
