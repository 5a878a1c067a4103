"""Mutation testing: plant one fault at a time, run the tests, and check that they fail."""
