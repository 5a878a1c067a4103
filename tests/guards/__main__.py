"""`python -m tests.guards`."""

import sys

from tests.guards.run import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main())
