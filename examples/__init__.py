"""Small programs that use duly; every one of them is run by the tests."""
