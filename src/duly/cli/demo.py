"""`duly up --demo`: one item through each domain to its end, on a server and in a directory of the demo's own."""

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

from duly.cli.listen import address_of, listen
from duly.cli.up import about_of, components, only_one_here, run_until_stopped, say_stopped, wait_until_ready
from duly.db.embedded import EmbeddedServer
from duly.db.migrate import newest_revision
from duly.demo import ERRANDS, Narrator, make_fresh, narrator_of, tell_story, tell_what_it_is
from duly.errors import InvalidArgument, Misconfigured
from duly.extras import in_checkout, install
from duly.launcher import ROOT
from duly.settings import Settings, load_settings, variables_of

__all__ = ["run_demo"]

KEPT = ("home", "pgbin", "pguser", "ocr_tessdata")  # of all settings: where things are on this machine
PICTURES = ROOT / "fixtures" / "demo"
BRISK = {  # a clock that is moved wakes nobody, and what is under way when it ends is nobody's loss
    "DULY_POLL_SECONDS": "0.2",
    "WORKER_POLL_SECONDS": "0.2",
    "DULY_STOP_SECONDS": "1",
    "DULY_LOG_LEVEL": "info",
}
EYES = "ocr"  # the extra that reads screenshots
DID_NOT_SUCCEED, INTERRUPTED = 1, 130


def run_demo(port: int | None, app_name: str | None, once: bool, as_json: bool) -> None:
    """Tell the story; then stay up for whoever wants to try its commands, unless nobody watches."""
    if app_name:
        raise InvalidArgument(f"--app {app_name}: a demo brings its own job types; leave out --app or --demo")
    if not PICTURES.is_dir():
        raise Misconfigured(f"--demo: there are no pictures in {PICTURES}; run it in a clone of the repository")
    forgotten = forget_settings()
    settings = load_settings()
    narrator = narrator_of(prefix_of(settings.home, forgotten), as_json=as_json)
    with only_one_here(settings.home) as note:
        tell_what_it_is(narrator, settings.home)
        install(EYES)
        began = time.monotonic()
        log = settings.home / "demo.log"
        with (
            log.open("wb", buffering=0) as output,
            listen(settings.host, port) as listener,
            EmbeddedServer.start(settings.home, pgbin=settings.pgbin, pguser=settings.pguser) as server,
        ):
            database = make_fresh(server)
            shutil.rmtree(settings.home / "objects", ignore_errors=True)  # whose database is gone
            database.allow_logins((settings.worker_role, settings.api_role, settings.readonly_role))
            note(about_of(listener, database.describe(), newest_revision(), database.address))
            play = Play(
                is_ready=partial(wait_until_ready, *listener.getsockname()[:2]),
                story=partial(tell_story, database.dsn, settings, PICTURES, log, narrator, began),
                farewell=partial(say_farewell, narrator, settings.home, address_of(listener)),
                stays=not (once or as_json) and sys.stdin.isatty() and sys.stdout.isatty(),
            )
            tree = components(listener, database, settings, ERRANDS)
            asyncio.run(run_until_stopped(server, tree, play, output))
        say_stopped(server, as_json)
    if not play.went_well:
        sys.exit(INTERRUPTED if play.went_well is None else DID_NOT_SUCCEED)


@dataclass
class Play:
    """The story, played beside the processes that do the work; afterwards it is known how it went."""

    is_ready: Callable[[asyncio.Event], bool]
    story: Callable[[], Coroutine[object, object, bool]]
    farewell: Callable[[bool], None]
    stays: bool
    went_well: bool | None = None

    async def __call__(self, stop: asyncio.Event) -> None:
        """Play it, unless we are told to stop; then stop, or stay for whoever watches."""
        await asyncio.to_thread(self.is_ready, stop)
        playing, stopping = asyncio.create_task(self.story()), asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((playing, stopping), return_when=asyncio.FIRST_COMPLETED)
            if playing.done():
                self.went_well = playing.result()
        finally:
            playing.cancel()
            stopping.cancel()
        if self.went_well:
            self.farewell(self.stays)
        if not (self.went_well and self.stays):
            stop.set()


def forget_settings() -> list[str]:
    """Live in a directory of our own, and by no other setting of this shell; the variables that others would hear of.

    Nobody's database, bucket or bot is a demo's to use.
    """
    settings = [name for name in Settings.model_fields if name not in KEPT]
    variables = [variable for name in settings for variable in variables_of(name)]
    forgotten = [variable for variable in variables if os.environ.pop(variable, "")]
    os.environ.pop("PGSERVICE", None)  # no address can overrule it
    home = load_settings().home / "demo"
    os.environ |= {**BRISK, "DULY_HOME": str(home if Path.cwd() == ROOT else home.absolute())}
    return forgotten


def prefix_of(home: Path, forgotten: Sequence[str]) -> str:
    """What leads a command, pasted into another terminal, to the demo's database and to no other."""
    here = "./duly" if Path.cwd() == ROOT else shlex.quote(str(ROOT / "duly"))
    without = " ".join(("env", *(f"-u {variable}" for variable in forgotten), "")) if forgotten else ""
    return f"{without}DULY_HOME={shlex.quote(str(home))} {here if in_checkout() else 'duly'}"


def say_farewell(narrator: Narrator, home: Path, api: str, stays: bool) -> None:
    """What there is to do now."""
    if stays:
        narrator.begin(
            f"All of it is still up, the API at {api}: try the commands above in another terminal. Stop with Ctrl-C."
        )
    else:
        narrator.begin(f"The commands above still work: what they show is in {home} until the next demo.")
