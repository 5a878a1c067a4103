"""Ingest beside a minimal program that does the same: on the same server, in the same run.

    round 1:  drain     duly, bare          each with a fresh database of its own,
              grown     few, many           a commit probe before and after,
    round 2:  drain     bare, duly          workers in processes of their own
    ...                                     each round begins with another one

The server is private and durable (fsync and synchronous_commit on). We run as an installation does: `duly_worker`, with
heartbeat, sweeps, canonical form, diff and messages. The baseline, `bare_worker`, claims and writes the same
rows by the same statements over the same tables and triggers, in batches of the same size; but it knows from the
beginning what it will write, down to the last event.

Sessions are given as data, so that no reader is measured. Of four one shows a new day of five shifts, one shows a day
that is known with one shift moved, and two show a known day as it is: half of them write a version, events and a
message. Sessions of one batch are about different days.

`duly bench ingest` runs it; `docs/figures/ingest.md` explains what is measured and shows figures.
"""
