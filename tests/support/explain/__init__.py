"""Random states for `explain`: what it calls takeable, a claim takes, and nothing else."""
