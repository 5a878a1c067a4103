"""The operating-system account the server runs under: the current one or, for root, an unprivileged one."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from duly.errors import NoAccount

UNPRIVILEGED = ("postgres", "nobody")


class SubprocessIdentity(TypedDict, total=False):
    """The keyword arguments that make `subprocess` start a program as another account."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True)
class Account:
    """An operating-system account."""

    name: str
    uid: int
    gid: int

    @property
    def is_current(self) -> bool:
        """Return whether this process runs under the account."""
        return self.uid == os.geteuid()

    def subprocess_identity(self) -> SubprocessIdentity:
        """Return the arguments that start a program as this account; none when it is the current one."""
        return {} if self.is_current else {"user": self.uid, "group": self.gid, "extra_groups": []}

    def can_enter(self, directory: Path) -> bool:
        """Return whether the account can enter a directory, by trying: modes, ACLs and mounts all matter."""
        command = ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(directory)]
        try:
            return subprocess.run(command, cwd="/", capture_output=True, **self.subprocess_identity()).returncode == 0
        except PermissionError:
            raise NoAccount(
                f"running as root without the right to become '{self.name}' (CAP_SETUID), and PostgreSQL refuses root; "
                "run as an ordinary user, or set DATABASE_URL to use a server you run"
            ) from None

    def can_run(self, program: Path) -> bool:
        """Return whether the account can run a program."""
        try:
            return (
                subprocess.run([program, "-V"], cwd="/", capture_output=True, **self.subprocess_identity()).returncode
                == 0
            )
        except PermissionError:
            return False


def server_account(preferred: str | None = None, owner_uid: int | None = None) -> Account:
    """Return the current account; as root the preferred, else the owner of existing data, else the first found."""
    if os.geteuid() != 0:
        return own_account()
    owner = find_name(owner_uid)
    for name in [preferred] if preferred else [*([owner] if owner else []), *UNPRIVILEGED]:
        if account := find_account(name):
            return account
    if preferred:
        raise NoAccount(f"DULY_PGUSER={preferred}: no such account; set it to one that exists, or unset it")
    raise NoAccount(
        f"running as root, PostgreSQL needs another account, and there is none of {', '.join(UNPRIVILEGED)}; "
        "set DULY_PGUSER to an account that exists, or set DATABASE_URL to use a server you run"
    )


def own_account() -> Account:
    """Return the account of this process, which must have a name for initdb."""
    uid = os.geteuid()
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise NoAccount(
            f"the user id {uid} has no entry in /etc/passwd, and PostgreSQL's initdb refuses to run without one; add "
            f"the line 'duly:x:{uid}:{os.getegid()}::/tmp:/bin/sh', or set DATABASE_URL to use a server you run"
        ) from None
    return Account(entry.pw_name, uid, os.getegid())


def find_name(uid: int | None) -> str | None:
    """Find the name of a user id."""
    try:
        return None if uid is None else pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def find_account(name: str) -> Account | None:
    """Find an unprivileged account by name."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(name, entry.pw_uid, entry.pw_gid) if entry.pw_uid else None
