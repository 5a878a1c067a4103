"""A worker process of one system: `python -m tools.bench.ledger.worker <system> <address> <start log> <numbers>`."""

import sys
from pathlib import Path

from tools.bench.ledger.start_log import StartLog
from tools.bench.ledger.system import import_system


def main() -> None:
    """Work until SIGTERM."""
    name, dsn, path, numbers = sys.argv[1:]
    import_system(name).work(dsn, StartLog(Path(path), int(numbers)))


if __name__ == "__main__":
    main()
