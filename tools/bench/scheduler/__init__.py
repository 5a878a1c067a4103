"""The scheduler and the outbox: a pass costs what is due and not what there is, and sending what it must."""
