"""Random states for `explain`: it says `due` of exactly what a claim returns."""
