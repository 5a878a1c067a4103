"""A project as small as can be around the real launcher: a tiny wheel per group, no network, real pip and uv.

The packages are found by the user's own pip and uv configuration (files in an otherwise empty home), so every test
that uses it also shows that the configuration is honoured.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from duly.extras import MODULES
from duly.launcher import ROOT

MAIN = """\
import importlib, json, os, signal, sys

def versions():
    found = {}
    for name in ("small_core", "rapidocr", "small_dev"):
        try:
            found[name] = importlib.import_module(name).VERSION
        except ImportError:
            pass
    return found

match sys.argv[1:]:
    case ["exit", status]:
        sys.exit(int(status))
    case ["wait"]:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
        print(os.getpid(), flush=True)
        signal.pause()
    case ["called"]:
        print(json.dumps({"called": os.environ["DULY_COMMAND"]}))
    case ["need", extra]:
        from duly.extras import install
        install(extra)
        print(json.dumps(versions()))
    case arguments:
        print(json.dumps({"arguments": arguments, **versions()}))
"""
PACKAGES: Mapping[str, Sequence[str]] = {"core": ["small_core"], **MODULES, "dev": ["small_dev"]}
SMALL_PYPROJECT = f"""\
[project]
name = "duly"
version = "0"
requires-python = ">=3.11"
dependencies = ["small-core"]

[project.optional-dependencies]
{"".join(f'{extra} = ["small-{extra}"]{chr(10)}' for extra in MODULES)}
[dependency-groups]
dev = ["duly[{",".join(MODULES)}]", "small-dev"]

[tool.uv]
python-downloads = "never"
"""
TOOLS = ("sh", "dirname", "readlink", "cmp", "env", "cat", "sleep", "mkfifo")


@dataclass(frozen=True)
class SmallProject:
    """A checkout, its wheels, and a PATH that holds nothing but what it is given."""

    root: Path
    wheels: Path
    programs: Path
    home: Path

    @property
    def launcher(self) -> Path:
        return self.root / "duly"

    def environment(self, **more: str) -> dict[str, str]:
        """A bare environment: a PATH, a home, and what the test adds."""
        return {"PATH": str(self.programs), "HOME": str(self.home), **more}

    def configure(self, wheels: Path) -> None:
        """Write the user's configuration of pip and uv: our wheels and no index."""
        settings = self.home / ".config"
        (settings / "pip").mkdir(parents=True, exist_ok=True)
        (settings / "uv").mkdir(parents=True, exist_ok=True)
        (settings / "pip" / "pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {wheels}\n")
        (settings / "uv" / "uv.toml").write_text(f'no-index = true\nno-cache = true\nfind-links = ["{wheels}"]\n')

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the launcher to its end."""
        return subprocess.run(
            [self.launcher, *arguments], env=self.environment(**environment), cwd="/", capture_output=True, text=True
        )

    def lock(self, version: str, without: Collection[str] = ()) -> None:
        """Write a lock that asks for this version of every group but some."""
        entries = [
            f"# [{group}]\nsmall-{group}=={version} \\\n    --hash=sha256:{digest(self.wheel(group, version))}\n"
            for group in PACKAGES
            if group not in without
        ]
        (self.root / "requirements.lock").write_text("\n".join(entries))

    def wheel(self, group: str, version: str) -> Path:
        """The wheel of one group, made if it is not there yet."""
        path = self.wheels / f"small_{group}-{version}-py3-none-any.whl"
        if not path.exists():
            make_wheel(path, f"small-{group}", version, PACKAGES[group])
        return path

    def write_index(self) -> Path:
        """Lay the wheels out as a package index with hashes, to be served."""
        directory = self.home / "index"
        for wheel in self.wheels.iterdir():
            page = directory / "simple" / wheel.name.split("-")[0].replace("_", "-") / "index.html"
            page.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(wheel, page.parent)
            wheels = sorted(page.parent.glob("*.whl"))
            links = [f'<a href="{each.name}#sha256={digest(each)}">{each.name}</a>' for each in wheels]
            page.write_text("<!DOCTYPE html>" + "".join(links))
        return directory

    def offer(self, name: str, program: Path | str) -> None:
        """Put a program on the PATH under a name."""
        (self.programs / name).unlink(missing_ok=True)
        (self.programs / name).symlink_to(program)

    def offer_script(self, name: str, text: str) -> None:
        """Put a shell script on the PATH."""
        (self.programs / name).unlink(missing_ok=True)
        (self.programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.programs / name).chmod(0o755)


def make_project(directory: Path, python: Path | str | None = None) -> SmallProject:
    """A fresh checkout of the small project, with one Python on the PATH and no environment yet."""
    project = SmallProject(directory / "checkout", directory / "wheels", directory / "programs", directory / "home")
    for path in (project.root, project.wheels, project.programs, project.home):
        path.mkdir(parents=True)
    shutil.copy(ROOT / "duly", project.launcher)
    shutil.copytree(ROOT / "src" / "duly", project.root / "src" / "duly", ignore=shutil.ignore_patterns("__pycache__"))
    (project.root / "src" / "duly" / "__main__.py").write_text(MAIN)
    for tool in TOOLS:
        project.offer(tool, shutil.which(tool) or "/bin/false")
    project.offer("python3", python or base_python())
    project.configure(project.wheels)
    project.lock("1.0")
    return project


def base_python() -> str:
    """The interpreter under our environment."""
    return os.path.realpath(sys.executable)


def python_without(directory: Path, *modules: str) -> Path:
    """A Python of its own that lacks some modules: the same program over a library of links."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = directory / "lib" / version
    library.mkdir(parents=True)
    original = Path(os.__file__).parent
    for entry in original.iterdir():
        if entry.name not in {*modules, "site-packages", "__pycache__"}:
            (library / entry.name).symlink_to(entry)
    (library / "site-packages").mkdir()
    if "pip" not in modules:
        (library / "site-packages" / "pip").symlink_to(pip_of(base_python()))
    # Debian's Python looks into a directory of its own besides; this one must not.
    (library / "sitecustomize.py").unlink(missing_ok=True)
    (library / "sitecustomize.py").write_text(
        "import sys\nsys.path[:] = [path for path in sys.path if not path.endswith('dist-packages')]\n"
    )
    (directory / "bin").mkdir()
    return Path(shutil.copy(base_python(), directory / "bin" / version))


def pip_of(python: str) -> Path:
    """Where an interpreter keeps its pip."""
    code = "import importlib.util; print(importlib.util.find_spec('pip').submodule_search_locations[0])"
    return Path(subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip())


def make_wheel(path: Path, name: str, version: str, modules: Sequence[str]) -> None:
    """A pure wheel whose modules know their version."""
    information = f"{name.replace('-', '_')}-{version}.dist-info"
    # The padding makes versions differ in size: bytecode of the same second and size would pass for current.
    padding = "#" * sum(map(int, version.split(".")))
    files = {f"{module}.py": f"VERSION = {version!r}  {padding}\n" for module in modules}
    files[f"{information}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files[f"{information}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(f"{file},sha256={encoded(text)},{len(text.encode())}\n" for file, text in files.items())
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in {**files, f"{information}/RECORD": f"{record}{information}/RECORD,,\n"}.items():
            wheel.writestr(file, text)


def encoded(text: str) -> str:
    """A digest as a wheel's RECORD writes it."""
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def digest(path: Path) -> str:
    """A digest as a lock writes it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
