"""The runtime. Today it holds the process tree of `duly up`; the worker's loops join it with the kernel."""
