"""A program on a pseudo-terminal whose screen a test can read."""

import os
import pty
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

SECONDS = 240.0  # on a machine that does much else


class TerminalProgram:
    """A program whose input and output are a terminal; killed with its whole group when the test is over."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], directory: Path | None = None) -> None:
        self.controller, terminal = pty.openpty()
        self.process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        self.output = ""

    def read_until(self, text: str) -> str:
        """Return the output up to this text."""
        while text not in self.output:
            try:
                piece = os.read(self.controller, 65536)
            except OSError:  # the other end is closed
                piece = b""
            assert piece, f"it ended with {self.process.wait(SECONDS)} after:\n{self.output}"
            self.output += piece.decode(errors="replace").replace("\r\n", "\n")
        return self.output

    def close(self) -> None:
        """Kill it, and wait until it is gone."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(SECONDS)
        os.close(self.controller)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
