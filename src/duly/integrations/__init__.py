"""Integrations with web frameworks."""
