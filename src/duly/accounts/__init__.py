"""Accounts: orgs, users, their API keys, and signed links.

    org  <---- key ----> user          a key belongs to an org, to a user, or to a user within an org

There is one table of users, `"user".users`: posts refer to a user by `uid`, the scheduler by `id`, a chat by its
Telegram id. The secret of a key is shown once, when the key is created; the database stores a prefix to find the key
by and a hash to verify the secret.
"""

from duly.accounts.model import SCOPES, ApiKey, NewKey, Org, User

__all__ = ["SCOPES", "ApiKey", "NewKey", "Org", "User"]
