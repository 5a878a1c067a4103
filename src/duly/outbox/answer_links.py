"""Signed links that answer as a button does, for channels that have no buttons.

A link is the same at every attempt: it is derived from the message, and expires a fixed time after that was created.
`scheduler/reminder.py` writes the `run` and the `buttons` that are read here; `http/answer.py` opens the links.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from duly.accounts.signed_links import LinkClaims, sign_link
from duly.outbox.channel import AnswerLink

LINK_TTL_SECONDS = 14 * 86_400


@dataclass(frozen=True, slots=True)
class AnswerLinks:
    """Creates answer links to the API at its public URL."""

    public_url: str

    def create(
        self, keys: Sequence[bytes], uid: str, payload: Mapping[str, Any], created_at: datetime
    ) -> list[AnswerLink]:
        """Return a link for each button of a message about a run; none for other messages."""
        run = payload.get("job_run_id")
        if not isinstance(run, int):
            return []
        expires_at = int(created_at.timestamp()) + LINK_TTL_SECONDS
        buttons: Sequence[Mapping[str, Any]] = payload.get("buttons", ())
        return [
            AnswerLink(
                str(each["label"]),
                self.link_url(
                    sign_link(
                        keys, LinkClaims(uid, run, each["action"], each["key"], expires_at, each.get("payload", {}))
                    )
                ),
            )
            for each in buttons
        ]

    def link_url(self, token: str) -> str:
        """Return the URL that accepts a token."""
        return f"{self.public_url.rstrip('/')}/c/{token}"
