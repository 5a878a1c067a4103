"""Kernel locks on files: released by the kernel however the process ends."""

import fcntl
import os
from pathlib import Path


def hold_shared(path: Path) -> int:
    """Wait for a shared lock; return the descriptor that holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def hold_exclusive(path: Path) -> int | None:
    """Acquire the exclusive lock without waiting; None when the file is locked."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_held(path: Path) -> bool:
    """Return whether any process has a lock on the file."""
    descriptor = hold_exclusive(path)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None
