"""A worker process of one side: `python -m tools.bench.ledger.worker <side> <address> <board> <numbers>`."""

import sys
from pathlib import Path

from tools.bench.ledger.board import Board
from tools.bench.ledger.side import side_of


def main() -> None:
    """Work until a SIGTERM."""
    name, dsn, path, numbers = sys.argv[1:]
    side_of(name).work(dsn, Board(Path(path), int(numbers)))


if __name__ == "__main__":
    main()
