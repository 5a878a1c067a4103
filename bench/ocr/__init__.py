"""How well photographs are read: screens that were never seen, each read once, scored with and without the language."""
