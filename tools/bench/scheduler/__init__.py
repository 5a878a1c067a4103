"""The scheduler and the outbox: a pass costs what is due, not what is stored; the sender beside a minimal program."""
