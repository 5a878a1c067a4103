"""Measurements that anyone can repeat on a server of their own; no test depends on a time measured here."""
