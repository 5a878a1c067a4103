"""The database room: the embedded server today; pool, queries and migrations join it next."""
