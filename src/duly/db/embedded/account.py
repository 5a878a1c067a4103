"""The operating-system account the server runs under: our own, or, since PostgreSQL refuses root, one that exists."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from duly.errors import NoAccount

__all__ = ["Account", "Identity", "server_account"]

UNPRIVILEGED = ("postgres", "nobody")


class Identity(TypedDict, total=False):
    """The keyword arguments that make `subprocess` start a program as another account."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True)
class Account:
    """An account, and whether a process must change to it."""

    name: str
    uid: int
    gid: int

    @property
    def is_ours(self) -> bool:
        return self.uid == os.geteuid()

    def identity(self) -> Identity:
        """How to start a program as this account; nothing to do when it is our own."""
        return {} if self.is_ours else {"user": self.uid, "group": self.gid, "extra_groups": []}

    def can_enter(self, directory: Path) -> bool:
        """Asked of the kernel, not computed: modes, ACLs and mounts all have a say."""
        entering = ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(directory)]
        try:
            return subprocess.run(entering, cwd="/", capture_output=True, **self.identity()).returncode == 0
        except PermissionError:
            raise NoAccount(
                f"running as root without the right to become '{self.name}' (CAP_SETUID), and PostgreSQL refuses root; "
                "run as an ordinary user, or set DATABASE_URL to use a server you run"
            ) from None

    def can_run(self, program: Path) -> bool:
        """Does `program --version` start for this account?"""
        try:
            return subprocess.run([program, "-V"], cwd="/", capture_output=True, **self.identity()).returncode == 0
        except PermissionError:
            return False


def server_account(preferred: str | None = None, owner_uid: int | None = None) -> Account:
    """Our own account; as root the preferred, else the owner of data that exists, else the first that exists."""
    if os.geteuid() != 0:
        return own_account()
    owner = name_of(owner_uid)
    for name in [preferred] if preferred else [*([owner] if owner else []), *UNPRIVILEGED]:
        if account := find_account(name):
            return account
    if preferred:
        raise NoAccount(f"DULY_PGUSER={preferred}: there is no such account; name one that exists, or unset it")
    raise NoAccount(
        f"running as root, PostgreSQL needs another account, and there is none of {', '.join(UNPRIVILEGED)}; "
        "set DULY_PGUSER to an account that exists, or set DATABASE_URL to use a server you run"
    )


def own_account() -> Account:
    """The account of this process, which PostgreSQL insists on finding by name."""
    uid = os.geteuid()
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise NoAccount(
            f"the user id {uid} has no entry in /etc/passwd, and PostgreSQL's initdb refuses to run without one; add "
            f"the line 'duly:x:{uid}:{os.getegid()}::/tmp:/bin/sh', or set DATABASE_URL to use a server you run"
        ) from None
    return Account(entry.pw_name, uid, os.getegid())


def name_of(uid: int | None) -> str | None:
    """The name behind a user id, if there is one."""
    try:
        return None if uid is None else pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def find_account(name: str) -> Account | None:
    """An unprivileged account by name."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(name, entry.pw_uid, entry.pw_gid) if entry.pw_uid else None
