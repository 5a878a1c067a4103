"""One claim/process cycle of the ingest worker, as its contract names it: `uv run python main.py`.

Exits 0 when there was nothing to do, when a session is done, and when one was marked failed; 1 when it could not run.
"""

from duly.cli.once import main

if __name__ == "__main__":
    main()
