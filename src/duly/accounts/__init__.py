"""People: who a Telegram id, an author id, a requester is, and whose key opened the door.

    org  <---- key ----> user          a key belongs to an org, to a person, or to a person within an org

There is one table of people, `"user".users`: posts call a person by `uid`, the scheduler by `id`, a chat by its
Telegram id. A key is shown once, when it is made; the database keeps a prefix to find it by and a hash to prove it.
"""

from duly.accounts.model import SCOPES, ApiKey, NewKey, Org, User

__all__ = ["SCOPES", "ApiKey", "NewKey", "Org", "User"]
