"""Accounts: orgs, people, their API keys, and signed links.

    org  <---- key ----> person          a key belongs to an org, to a person, or to a person within an org

There is one table of people, `"person".people`: posts refer to a person by `uid`, the scheduler by `id`, a chat by its
Telegram id. The secret of a key is shown once, when the key is created; the database stores a prefix to find the key
by and a hash to verify the secret.
"""

from duly.accounts.model import SCOPES, ApiKey, NewKey, Org, Person

__all__ = ["SCOPES", "ApiKey", "NewKey", "Org", "Person"]
