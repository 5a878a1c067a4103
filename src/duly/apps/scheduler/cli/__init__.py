"""The commands of the scheduler."""
