"""`./duly` on machines of every kind: real pip, real uv, an empty home, no network."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from duly.launcher import ALWAYS, EXTRAS, ROOT, expand_groups, find_bundled_pip, parse_lock
from tests.support.processes import Program
from tests.support.small_project import PACKAGES, SMALL_PYPROJECT, SmallProject, make_project, python_without

DEBIAN_PYTHON = Path("/usr/bin/python3")
UV = Path(sys.executable).with_name("uv")
PREPARING = "duly: preparing .venv"


@pytest.fixture
def project(tmp_path: Path) -> SmallProject:
    return make_project(tmp_path)


@pytest.fixture
def prepared(project: SmallProject) -> SmallProject:
    project.offer("uv", UV)
    answer = project.run()
    assert answer.returncode == 0, answer.stderr
    return project


def parse_output(answer: subprocess.CompletedProcess[str]) -> dict[str, object]:
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


class TestOnAFreshClone:
    def test_pip_prepares_the_environment(self, tmp_path: Path) -> None:
        project = make_project(tmp_path, python_without(tmp_path / "python", "uv"))
        answer = project.run("up", "--port", "1")
        assert parse_output(answer) == {"arguments": ["up", "--port", "1"], "small_core": "1.0"}
        assert f"{PREPARING}: 4 packages, with pip" in answer.stderr
        assert "4/4" in answer.stderr

    def test_uv_prepares_the_environment(self, project: SmallProject) -> None:
        project.offer("uv", UV)
        answer = project.run()
        assert parse_output(answer)["small_core"] == "1.0"
        assert f"{PREPARING}: 4 packages, with uv" in answer.stderr

    def test_pip_takes_over_when_uv_fails(self, project: SmallProject) -> None:
        project.offer_script("uv", "echo 'no route to anywhere' >&2; exit 2")
        answer = project.run()
        assert parse_output(answer)["small_core"] == "1.0"
        assert "no route to anywhere" in answer.stderr

    @pytest.mark.skipif(not DEBIAN_PYTHON.exists(), reason="no Python of a distribution on this machine")
    def test_an_externally_managed_python_is_accepted(self, tmp_path: Path) -> None:
        library = subprocess.run(
            [DEBIAN_PYTHON, "-c", "import sys, os; print(sys.version_info >= (3, 11), os.__file__)"],
            capture_output=True,
            text=True,
        ).stdout.split()
        if library[0] != "True" or not Path(library[1]).with_name("EXTERNALLY-MANAGED").exists():
            pytest.skip("the distribution's Python is older than 3.11 or not externally managed")
        assert parse_output(make_project(tmp_path, DEBIAN_PYTHON).run())["small_core"] == "1.0"

    def test_a_python_without_venv_and_ensurepip_is_accepted(self, tmp_path: Path) -> None:
        project = make_project(tmp_path, python_without(tmp_path / "python", "venv", "ensurepip"))
        assert parse_output(project.run())["small_core"] == "1.0"

    def test_a_python_whose_only_pip_is_inside_ensurepip_is_accepted(self, tmp_path: Path) -> None:
        python = python_without(tmp_path / "python", "pip")
        if not find_bundled_pip():
            pytest.skip("neither this Python nor its distribution keeps a pip aside")
        assert parse_output(make_project(tmp_path, python).run())["small_core"] == "1.0"

    def test_without_pip_and_uv_the_launcher_says_what_to_install(self, tmp_path: Path) -> None:
        project = make_project(tmp_path, python_without(tmp_path / "python", "pip", "ensurepip"))
        source = project.root / "src" / "duly" / "launcher.py"
        nothing_kept_aside = source.read_text().replace('sysconfig.get_config_var("WHEEL_PKG_DIR")', "None")
        source.write_text(nothing_kept_aside)
        answer = project.run()
        assert answer.returncode == 69
        assert "neither pip nor uv" in answer.stderr

    def test_an_old_python_is_skipped_for_a_newer_one(self, project: SmallProject) -> None:
        real = (project.programs / "python3").readlink()
        project.offer_script("python3", "exit 1")
        project.offer("python3.12", real)
        assert parse_output(project.run())["small_core"] == "1.0"

    def test_an_old_python_alone_is_refused_with_the_required_version(self, project: SmallProject) -> None:
        project.offer_script("python3", '[ "$1" = --version ] && echo "Python 3.9.2"; exit 1')
        answer = project.run()
        assert answer.returncode == 78
        assert "needs Python 3.11 or newer, found: Python 3.9.2" in answer.stderr
        assert "DULY_PYTHON" in answer.stderr

    def test_a_package_whose_hash_differs_from_the_lock_is_refused(self, project: SmallProject) -> None:
        lock = project.root / "requirements.lock"
        lock.write_text(re.sub("sha256:[0-9a-f]{64}", f"sha256:{'0' * 64}", lock.read_text()))
        answer = project.run()
        assert answer.returncode == 69
        assert "hash" in answer.stderr.lower()

    def test_a_failed_installation_is_reported_and_the_next_run_tries_again(self, project: SmallProject) -> None:
        project.configure(project.home)
        answer = project.run()
        assert answer.returncode == 69
        assert "small-core" in answer.stderr
        project.configure(project.wheels)
        assert parse_output(project.run())["small_core"] == "1.0"


class TestWhenNothingChanged:
    def test_a_prepared_environment_is_not_prepared_again(self, prepared: SmallProject) -> None:
        answer = prepared.run("x")
        assert parse_output(answer)["arguments"] == ["x"]
        assert answer.stderr == ""

    def test_the_launcher_adds_less_than_150_ms(self, prepared: SmallProject) -> None:
        direct = [prepared.root / ".venv" / "bin" / "python", "-P", "-m", "duly"]

        def seconds(command: list[Path | str]) -> float:
            began = time.perf_counter()
            subprocess.run(command, env=prepared.environment(), capture_output=True, check=True)
            return time.perf_counter() - began

        own = min(seconds([prepared.launcher]) for _ in range(7)) - min(seconds([*direct]) for _ in range(7))
        assert own < 0.150

    def test_the_launcher_works_through_a_symlink_and_in_a_moved_checkout(
        self, prepared: SmallProject, tmp_path: Path
    ) -> None:
        moved = prepared.root.rename(tmp_path / "moved here")
        (tmp_path / "link").symlink_to(moved / "duly")
        answer = subprocess.run([tmp_path / "link"], env=prepared.environment(), capture_output=True, text=True)
        assert parse_output(answer)["small_core"] == "1.0"

    def test_the_launcher_passes_on_the_command_it_was_called_with(self, prepared: SmallProject) -> None:
        environment = prepared.environment()
        calls = {
            "./duly": (["./duly", "called"], environment),
            str(prepared.root / "duly"): ([prepared.root / "duly", "called"], environment),
            "duly": (["sh", "-c", "duly called"], {**environment, "PATH": f"{prepared.root}:{environment['PATH']}"}),
        }
        for called, (command, given) in calls.items():
            answer = subprocess.run(command, env=given, cwd=prepared.root, capture_output=True, text=True)
            assert parse_output(answer)["called"] == called

    def test_the_launcher_works_without_cmp(self, prepared: SmallProject) -> None:
        (prepared.programs / "cmp").unlink()
        answer = prepared.run()
        assert parse_output(answer)["small_core"] == "1.0"
        assert answer.stderr == ""

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_the_launcher_works_in_a_read_only_checkout(self, prepared: SmallProject) -> None:
        prepared.root.chmod(0o555)
        try:
            assert parse_output(prepared.run())["small_core"] == "1.0"
        finally:
            prepared.root.chmod(0o755)

    def test_a_directory_named_duly_in_the_working_directory_is_ignored(
        self, prepared: SmallProject, tmp_path: Path
    ) -> None:
        (tmp_path / "here" / "duly").mkdir(parents=True)
        (tmp_path / "here" / "duly" / "__main__.py").write_text("raise SystemExit('the wrong one')")
        answer = subprocess.run(
            [prepared.launcher], cwd=tmp_path / "here", env=prepared.environment(), capture_output=True, text=True
        )
        assert parse_output(answer)["small_core"] == "1.0"


class TestPassedThrough:
    @pytest.mark.parametrize("status", [0, 3, 78])
    def test_the_launcher_returns_the_exit_status_of_the_command(self, status: int, prepared: SmallProject) -> None:
        assert prepared.run("exit", str(status)).returncode == status

    def test_the_launcher_passes_arguments_unchanged(self, prepared: SmallProject) -> None:
        arguments = ["a b", "", "--flag=*", "$HOME", "'quoted'", "åäö"]
        assert parse_output(prepared.run(*arguments))["arguments"] == arguments

    def test_the_launcher_passes_signals_to_the_command(self, prepared: SmallProject) -> None:
        with Program([prepared.launcher, "wait"], environment=prepared.environment()) as program:
            assert int(program.line()) == program.pid
            assert program.finish(signal.SIGTERM) == 7

    def test_killing_the_launcher_kills_the_command(self, prepared: SmallProject) -> None:
        with Program([prepared.launcher, "wait"], environment=prepared.environment()) as program:
            program.line()
            assert program.finish(signal.SIGKILL) == -signal.SIGKILL


class TestWhenTheLockChanges:
    def test_the_environment_is_updated_when_the_lock_changes(self, prepared: SmallProject) -> None:
        prepared.lock("2.0")
        answer = prepared.run()
        assert parse_output(answer)["small_core"] == "2.0"
        assert PREPARING in answer.stderr
        assert prepared.run().stderr == ""

    def test_installed_extras_are_updated_when_the_lock_changes(self, prepared: SmallProject) -> None:
        assert parse_output(prepared.run("need", "ocr")) == {"small_core": "1.0", "rapidocr": "1.0"}
        prepared.lock("2.0")
        assert parse_output(prepared.run())["rapidocr"] == "2.0"

    @pytest.mark.parametrize("installer", ["uv", "pip"])
    def test_a_package_removed_from_the_lock_is_uninstalled(self, installer: str, prepared: SmallProject) -> None:
        assert parse_output(prepared.run("need", "ocr"))["rapidocr"] == "1.0"
        if installer == "pip":
            (prepared.programs / "uv").unlink()
        prepared.lock("1.0", without=["ocr"])
        assert parse_output(prepared.run()) == {"arguments": [], "small_core": "1.0"}

    def test_going_back_to_the_old_lock_after_a_failed_update_installs_it_again(self, prepared: SmallProject) -> None:
        prepared.lock("2.0")
        prepared.configure(prepared.home)
        assert prepared.run().returncode == 69
        prepared.lock("1.0")
        prepared.configure(prepared.wheels)
        answer = prepared.run()
        assert parse_output(answer)["small_core"] == "1.0"
        assert PREPARING in answer.stderr


class TestGroups:
    def test_an_ordinary_command_installs_what_a_checkout_always_has(self, prepared: SmallProject) -> None:
        assert set(parse_output(prepared.run())) == {"arguments", "small_core"}
        assert {group for group in PACKAGES if (prepared.root / ".venv" / "duly" / group).exists()} == set(ALWAYS)

    @pytest.mark.parametrize("command", ["test", "check", "chaos", "bench", "lock"])
    def test_commands_for_work_on_duly_install_everything(self, command: str, prepared: SmallProject) -> None:
        assert set(parse_output(prepared.run(command))) == {"arguments", "small_core", "rapidocr", "small_dev"}

    def test_an_extra_is_installed_when_it_is_first_needed(self, prepared: SmallProject) -> None:
        first = prepared.run("need", "ocr")
        assert parse_output(first) == {"small_core": "1.0", "rapidocr": "1.0"}
        assert "installing the extra 'ocr' (first use)" in first.stderr
        assert PREPARING in first.stderr
        assert prepared.run("need", "ocr").stderr == ""

    def test_an_extra_that_cannot_be_installed_is_a_clear_error(self, prepared: SmallProject) -> None:
        prepared.configure(prepared.home)
        answer = prepared.run("need", "ocr")
        assert answer.returncode != 0
        assert "could not be installed" in answer.stderr

    def test_our_own_lock_has_every_group(self) -> None:
        lock = (ROOT / "requirements.lock").read_text()
        found = frozenset[str]().union(*(groups for groups, _ in parse_lock(lock)))
        assert found == {"core", "dev", *EXTRAS}
        assert expand_groups(["all"]) > found

    def test_every_entry_of_our_own_lock_is_pinned_by_hash(self) -> None:
        entries = [entry for _, entry in parse_lock((ROOT / "requirements.lock").read_text())]
        assert len(entries) > 50
        assert all("==" in entry and "--hash=sha256:" in entry for entry in entries)


class TestTogetherAndInterrupted:
    def test_two_launchers_at_once_prepare_the_environment_once(self, project: SmallProject) -> None:
        environment = project.environment()
        with (
            Program([project.launcher], environment=environment) as one,
            Program([project.launcher], environment=environment) as two,
        ):
            for program in (one, two):
                assert json.loads(program.line())["small_core"] == "1.0"
                assert program.finish() == 0
            assert (one.stderr_text() + two.stderr_text()).count(PREPARING) == 1

    def test_an_environment_left_by_a_killed_installation_is_rebuilt(self, project: SmallProject) -> None:
        garbage = project.root / ".venv" / "garbage"
        project.offer_script("uv", f"echo half > {garbage}; echo started; exec sleep 600")
        with Program([project.launcher], environment=project.environment()) as program:
            program.wait_for_error("^started$")
        assert garbage.exists()
        (project.programs / "uv").unlink()
        answer = project.run()
        assert parse_output(answer)["small_core"] == "1.0"
        assert "interrupted" in answer.stderr
        assert not garbage.exists()

    def test_an_installer_that_outlives_the_launcher_is_waited_for(self, project: SmallProject) -> None:
        project.offer_script("uv", "echo $$ $PPID; exec sleep 600")
        with Program([project.launcher], environment=project.environment()) as first:
            installer, launcher = map(int, first.wait_for_error(r"^(\d+) (\d+)$").groups())
            os.kill(launcher, signal.SIGKILL)
            assert first.finish() != 0
            (project.programs / "uv").unlink()
            with Program([project.launcher], environment=project.environment()) as second:
                second.wait_for_error("another duly is preparing .venv")
                os.kill(installer, signal.SIGKILL)
                assert json.loads(second.line())["small_core"] == "1.0"

    def test_a_partly_removed_environment_is_rebuilt(self, prepared: SmallProject) -> None:
        environment = prepared.root / ".venv"
        shutil.rmtree(environment / "duly")
        (environment / "pyvenv.cfg").unlink()
        assert parse_output(prepared.run())["small_core"] == "1.0"

    def test_an_environment_whose_python_is_missing_is_rebuilt(self, prepared: SmallProject) -> None:
        python = prepared.root / ".venv" / "bin" / "python"
        python.unlink()
        python.symlink_to("/nowhere/python3")
        answer = prepared.run()
        assert parse_output(answer)["small_core"] == "1.0"
        assert "building it anew" in answer.stderr

    def test_an_existing_working_dot_venv_is_adopted(self, project: SmallProject) -> None:
        subprocess.run([project.programs / "python3", "-m", "venv", project.root / ".venv"], check=True)
        (project.root / ".venv" / "theirs").touch()
        assert parse_output(project.run())["small_core"] == "1.0"
        assert (project.root / ".venv" / "theirs").exists()


class TestBesideUv:
    @pytest.fixture
    def with_uv(self, project: SmallProject) -> SmallProject:
        project.offer("uv", UV)
        (project.root / "pyproject.toml").write_text(
            f"{SMALL_PYPROJECT}package = false\n"
            f"constraint-dependencies = {[f'small-{group}==1.0' for group in PACKAGES]}\n"
        )
        (project.root / "main.py").write_text("import small_core\nprint(small_core.VERSION)\n")
        for group in PACKAGES:
            project.wheel(group, "2.0")  # newer ones exist, and neither may take them
        return project

    def uv(self, project: SmallProject, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = project.environment(UV_PYTHON=str((project.programs / "python3").readlink()))
        ran = subprocess.run([UV, *arguments], cwd=project.root, env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return ran

    def test_uv_sync_and_the_launcher_do_not_undo_each_other(self, with_uv: SmallProject) -> None:
        everything = {"arguments": ["test"], "small_core": "1.0", "rapidocr": "1.0", "small_dev": "1.0"}
        assert parse_output(with_uv.run("test")) == everything
        note = with_uv.root / ".venv" / "duly" / "all"
        noted_at = note.stat().st_mtime_ns
        assert "Uninstalled" not in self.uv(with_uv, "sync").stderr
        assert self.uv(with_uv, "run", "python", "main.py").stdout == "1.0\n"
        again = with_uv.run("test")
        assert parse_output(again) == everything
        assert again.stderr == ""
        assert note.stat().st_mtime_ns == noted_at

    def test_an_environment_made_by_uv_sync_is_adopted(self, with_uv: SmallProject) -> None:
        self.uv(with_uv, "sync")
        assert self.uv(with_uv, "run", "python", "main.py").stdout == "1.0\n"
        (with_uv.root / ".venv" / "mark").touch()
        assert parse_output(with_uv.run())["small_core"] == "1.0"
        assert (with_uv.root / ".venv" / "mark").exists()
        assert self.uv(with_uv, "run", "python", "main.py").stdout == "1.0\n"
