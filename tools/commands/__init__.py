"""Commands for the development of duly itself, in a checkout."""
