"""`duly up --demo`: one item of each application from start to end, on a server and in a directory of its own."""

import asyncio
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from duly.cli.listen import listen, listener_url
from duly.cli.up import (
    build_components,
    describe_installation,
    directory_lock,
    print_stopped,
    run_until_stopped,
    wait_until_ready,
)
from duly.db.embedded import EmbeddedServer
from duly.db.migrate import newest_revisions
from duly.errors import InvalidArgument, Misconfigured
from duly.extras import install, is_checkout
from duly.launcher import ROOT
from duly.settings import Settings, load_settings, variable_names
from tools.demo import DEMO_APP, Narrator, create_demo_database, introduce, make_narrator, run_story

KEPT_SETTINGS = ("home", "pgbin", "pguser", "ocr_tessdata")  # paths on this machine; all others are ignored
PICTURES = ROOT / "fixtures" / "demo"
FAST_SETTINGS = {  # moving the clock wakes no poller, and work that is interrupted at the end does not matter
    "DULY_POLL_SECONDS": "0.2",
    "WORKER_POLL_SECONDS": "0.2",
    "DULY_STOP_SECONDS": "1",
    "DULY_LOG_LEVEL": "info",
}
OCR_EXTRA = "ocr"  # reads screenshots
FAILED, INTERRUPTED = 1, 130


def run_demo(port: int | None, app_name: str | None, once: bool, as_json: bool) -> None:
    """Run the demo; then stay up, so that its commands can be tried, unless there is no terminal."""
    if app_name:
        raise InvalidArgument(f"--app {app_name}: a demo brings its own job types; leave out --app or --demo")
    if not PICTURES.is_dir():
        raise Misconfigured(f"--demo: {PICTURES} does not exist; run it in a clone of the repository")
    ignored = ignore_settings()
    settings = load_settings()
    narrator = make_narrator(command_prefix(settings.home, ignored), as_json=as_json)
    with directory_lock(settings.home) as write_note:
        introduce(narrator, settings.home)
        install(OCR_EXTRA)
        started = time.monotonic()
        log = settings.home / "demo.log"
        with (
            log.open("wb", buffering=0) as output,
            listen(settings.host, port) as listener,
            EmbeddedServer.start(settings.home, pgbin=settings.pgbin, pguser=settings.pguser) as server,
        ):
            database = create_demo_database(server)
            shutil.rmtree(settings.home / "objects", ignore_errors=True)  # their database was dropped
            database.allow_logins((settings.worker_role, settings.api_role, settings.readonly_role))
            write_note(describe_installation(listener, database.describe(), newest_revisions(), database.address))
            demo = Demo(
                is_ready=partial(wait_until_ready, *listener.getsockname()[:2]),
                story=partial(run_story, database.dsn, settings, PICTURES, log, narrator, started),
                print_end=partial(print_end, narrator, settings.home, listener_url(listener)),
                stays_up=not (once or as_json) and sys.stdin.isatty() and sys.stdout.isatty(),
            )
            components = build_components(listener, database, settings, DEMO_APP)
            asyncio.run(run_until_stopped(server, components, demo, output))
        print_stopped(server, as_json)
    if not demo.has_succeeded:
        sys.exit(INTERRUPTED if demo.has_succeeded is None else FAILED)


@dataclass
class Demo:
    """The story, run beside the processes that do the work, and whether it succeeded."""

    is_ready: Callable[[asyncio.Event], bool]
    story: Callable[[], Coroutine[object, object, bool]]
    print_end: Callable[[bool], None]
    stays_up: bool
    has_succeeded: bool | None = None  # None: interrupted

    async def __call__(self, stop: asyncio.Event) -> None:
        """Run the story unless `stop` is set; then stop everything, or stay up."""
        await asyncio.to_thread(self.is_ready, stop)
        running, stopping = asyncio.create_task(self.story()), asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                self.has_succeeded = running.result()
        finally:
            running.cancel()
            stopping.cancel()
        if self.has_succeeded:
            self.print_end(self.stays_up)
        if not (self.has_succeeded and self.stays_up):
            stop.set()


def ignore_settings() -> list[str]:
    """Remove the settings of this shell and use a directory of our own; return the variables that were set.

    A demo must not use a real database, bucket or bot.
    """
    settings = [name for name in Settings.model_fields if name not in KEPT_SETTINGS]
    variables = [variable for name in settings for variable in variable_names(name)]
    ignored = [variable for variable in variables if os.environ.pop(variable, "")]
    os.environ.pop("PGSERVICE", None)  # it would override any URL
    home = load_settings().home / "demo"
    os.environ |= {
        **FAST_SETTINGS,
        "DULY_HOME": str(home if Path.cwd() == ROOT else home.absolute()),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),  # for the worker's app
    }
    return ignored


def command_prefix(home: Path, ignored: Sequence[str]) -> str:
    """Return what makes a command, pasted into another terminal, use the demo's database and no other."""
    here = "./duly" if Path.cwd() == ROOT else shlex.quote(str(ROOT / "duly"))
    without = " ".join(("env", *(f"-u {variable}" for variable in ignored), "")) if ignored else ""
    return f"{without}DULY_HOME={shlex.quote(str(home))} {here if is_checkout() else 'duly'}"


def print_end(narrator: Narrator, home: Path, api_url: str, stays_up: bool) -> None:
    """Print what can be done now."""
    if stays_up:
        narrator.begin(
            f"Everything is up, the API at {api_url}: try the commands above in another terminal. Stop with Ctrl-C."
        )
    else:
        narrator.begin(f"The commands above still work: the data stays in {home} until the next demo.")
