"""One claim/process cycle of the ingest worker, as its contract names it: `uv run python main.py`.

Prints how the cycle ended. Exits 0 when there was nothing to do, when a session is done, and when one was marked
failed; 1 when its lease was lost, when it was released, and when an error stood in the way.
"""

from duly.apps.ingest.cli.once import main

if __name__ == "__main__":
    main()
