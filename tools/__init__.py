"""Tools for people who work on duly itself; none of them ships."""
