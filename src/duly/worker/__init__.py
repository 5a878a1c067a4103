"""The worker: claims rows of every work type, runs their handlers, renews their leases and settles their outcomes."""
