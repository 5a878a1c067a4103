"""Measure how well photographs are read: unseen screens, each read once, scored with and without Tesseract."""
