"""`duly verify` over histories of many millions of events: every law, in one snapshot."""
