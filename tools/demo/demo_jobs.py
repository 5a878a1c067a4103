"""The job type of the demo: it fails twice and then succeeds."""

import duly
from duly.backoff import BackoffPolicy

PAUSE_SECONDS = 600.0
TRIES_WITHOUT_PAPER = 2

app = duly.App()


class OutOfPaper(Exception):
    """The printer has no paper."""


@app.job("print_invoice", max_attempts=5, backoff=duly.Backoff(BackoffPolicy.FIXED, base_seconds=PAUSE_SECONDS))
async def print_invoice(ctx: duly.Context, order: int) -> str:
    """Print an invoice; the first two attempts fail."""
    if ctx.attempt < TRIES_WITHOUT_PAPER:
        raise OutOfPaper(f"the printer has no paper for invoice {order}")
    return f"invoice {order} is printed"
