"""`python -m tests.proof.guards`."""

import sys

from tests.proof.guards.run import main

if __name__ == "__main__":
    sys.exit(main())
