"""What `duly jobs` offers."""

import typer

__all__ = ["jobs_app"]

jobs_app = typer.Typer(help="Jobs: ask for them, look at them, steer them.", no_args_is_help=True)
