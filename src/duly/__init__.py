"""duly: in the proper way, at the proper time.

Durable work on the PostgreSQL you already have: things that must happen later, once, by one holder at a time,
and be provable afterwards. The rooms of the house are drawn in `docs/architecture.md`.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
