"""Posts beside a minimal program that does the same: on the same server, in the same run.

    round 1:  release     duly, bare          each with a fresh database of its own,
              minute      duly                a commit probe before and after,
              intents     duly, bare          workers and servers in processes of their own
              grown       few, many
    round 2:  release     bare, duly          each round begins with another one
    ...

The server is private and durable (fsync and synchronous_commit on). We run as an installation does: the worker as
`duly_worker`, with its heartbeat, sweeps and readings by rules; the API is `duly serve` as `duly_api`, with a key for
every author and images in a directory. What we are held against has none of that: `bare_worker` claims, settles and
writes notices in a loop, by the same statements over the same tables and triggers; `bare_app` answers a request after
one INSERT.

How a release is measured: the worker is up, warm and idle; posts that wait become due by the passing of time alone; the
database tells when each was released.

`duly bench posts` runs it; `docs/figures/posts.md` explains what is measured and shows figures.
"""
