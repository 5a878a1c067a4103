"""Proof that the tests still bite: plant one fault at a time, run them, and see whether they notice."""
