"""Links that answer as a button does, for channels that have no buttons.

A link is the same at every try of its message: it is made of the message, and lives so long from when that was written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from duly.accounts.signed_links import Link, sign_link
from duly.outbox.channel import AnswerLink

__all__ = ["Links"]

LIFE_SECONDS = 14 * 86_400


@dataclass(frozen=True, slots=True)
class Links:
    """Makes links that lead to the API at its public address."""

    public_url: str

    def create(
        self, keys: Sequence[bytes], uid: str, payload: Mapping[str, Any], written_at: datetime
    ) -> list[AnswerLink]:
        """A link for each button of a message about a run; none for other messages."""
        run = payload.get("run")
        if not isinstance(run, int):
            return []
        until = int(written_at.timestamp()) + LIFE_SECONDS
        buttons: Sequence[Mapping[str, Any]] = payload.get("buttons", ())
        return [
            AnswerLink(
                str(each["label"]),
                self.address_of(
                    sign_link(keys, Link(uid, run, each["action"], each["key"], until, each.get("payload", {})))
                ),
            )
            for each in buttons
        ]

    def address_of(self, token: str) -> str:
        """Where a token is opened."""
        return f"{self.public_url.rstrip('/')}/c/{token}"
