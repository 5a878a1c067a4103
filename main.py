"""One claim/process cycle of the ingest worker, as its contract names it. The ingest domain is not built yet."""

import duly

if __name__ == "__main__":
    print(f"duly {duly.__version__}: the ingest domain is still to come; nothing was claimed.")
