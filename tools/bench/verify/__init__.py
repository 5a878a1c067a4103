"""`duly verify` over histories of many millions of events: every invariant, in one snapshot."""
