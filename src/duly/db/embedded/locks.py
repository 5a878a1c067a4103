"""Kernel locks on files: held by a descriptor, released by the kernel however the holder ends."""

import fcntl
import os
from pathlib import Path

__all__ = ["hold_exclusive", "hold_shared", "is_held"]


def hold_shared(path: Path) -> int:
    """Wait for a shared lock; returns the descriptor that keeps it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def hold_exclusive(path: Path) -> int | None:
    """Take the exclusive lock at once; None when anybody holds the file."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_held(path: Path) -> bool:
    """Does anybody hold the file, in whichever way?"""
    descriptor = hold_exclusive(path)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None
