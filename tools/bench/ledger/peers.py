"""Systems that run in an environment of their own, installed the first time they are measured.

They are not in requirements.lock: oban needs Python 3.12 and builds a dependency from source, which needs a C compiler,
and neither should bind the versions or the installing time of developers of duly. Everything is pinned by hash in
`requirements-<name>.txt`, which `python -m tools.bench.ledger.peers` resolves again.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from duly.errors import Misconfigured
from duly.launcher import ROOT

HERE = Path(__file__).parent
HOME = ROOT / ".duly" / "bench"
PYTHON = "BENCH_PYTHON"  # an interpreter for all of them, where uv finds none


@dataclass(frozen=True)
class Peer:
    """A system with an environment of its own; setting and unfinished are those of System, which it cannot be asked."""

    name: str
    requirement: str
    python: str  # what uv looks for; duly's own minimum unless the system needs a newer one
    setting: str
    unfinished: str

    @property
    def lock(self) -> Path:
        """Return its pinned requirements."""
        return HERE / f"requirements-{self.name}.txt"

    def install(self) -> str:
        """Install it unless its environment is that of the lock; return the interpreter."""
        home = HOME / self.name
        python, installed = home / "bin" / "python", home / "installed.txt"
        if installed.exists() and installed.read_text() == self.lock.read_text():
            return str(python)
        print(f"duly: installing {self.requirement} into {home.relative_to(ROOT)} (first use)", file=sys.stderr)
        shutil.rmtree(home, ignore_errors=True)
        run_uv(self, "venv", "--python", os.environ.get(PYTHON, self.python), str(home))
        run_uv(self, "pip", "install", "--python", str(python), "--require-hashes", "-r", str(self.lock))
        shutil.copyfile(self.lock, installed)
        return str(python)


PEERS = {
    each.name: each
    for each in (
        Peer("dbos", "dbos==3.4.0", "3.11", "concurrency 500, polls every 0.1 s", "unfinished_of_dbos"),
        Peer("oban", "oban==0.7.0", "3.12", "psycopg, limit 1000", "unfinished_of_oban"),
    )
}


def run_uv(peer: Peer, *arguments: str) -> None:
    """Run uv with its user's configuration."""
    program = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    result = subprocess.run(
        [program, *arguments], cwd=HOME.parent.parent, env=environment, capture_output=True, text=True
    )
    if result.returncode:
        raise Misconfigured(
            f"cannot install {peer.requirement} for the benchmark (it needs Python {peer.python} or newer, and oban "
            f"a C compiler): uv {arguments[0]} failed:\n{result.stderr.strip()}\n"
            f"set {PYTHON} to such an interpreter, or leave {peer.name} out with --systems"
        )


def main() -> None:
    """Resolve the requirements of every peer again, without addresses of indexes."""
    for peer in PEERS.values():
        source = HOME / f"{peer.name}.in"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(f"{peer.requirement}\nuvloop\n")
        options = ("--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links")
        run_uv(peer, "pip", "compile", str(source), "--python-version", peer.python, *options, "-o", str(peer.lock))


if __name__ == "__main__":
    main()
