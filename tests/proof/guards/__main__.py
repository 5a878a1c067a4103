"""`python -m tests.proof.guards`."""

import sys

from tests.proof.guards.run import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main())
