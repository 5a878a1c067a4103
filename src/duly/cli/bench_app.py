"""What `duly bench` offers."""

import typer

__all__ = ["bench_app"]

bench_app = typer.Typer(help="Figures anyone can reproduce, on a server of their own.", no_args_is_help=True)
