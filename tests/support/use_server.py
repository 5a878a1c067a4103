"""A process that uses the embedded server of a home, says so in one line of JSON, and holds it until its input ends."""

import json
import sys
from pathlib import Path

from duly.db.embedded import EmbeddedServer

if __name__ == "__main__":
    home, *pgbin = map(Path, sys.argv[1:])
    with EmbeddedServer.start(home, pgbin=pgbin[0] if pgbin else None) as server:
        postmaster = int((server.plan.data / "postmaster.pid").read_text().splitlines()[0])
        print(json.dumps({"dsn": server.dsn(), "postmaster": postmaster}), flush=True)
        sys.stdin.read()
