"""The smallest app: one job type. Run it with `./duly up --app examples.greet:app`, then enqueue a job:

./duly jobs enqueue greet --payload '{"name": "Anna"}' --watch
"""

import duly

app = duly.App()


@app.job("greet", max_attempts=3, timeout="10s")
async def greet(ctx: duly.Context, name: str = "world") -> str:
    """Greet a person; the returned text is stored as the job's result."""
    await ctx.progress("greeting", 50)
    return f"hello {name}"
