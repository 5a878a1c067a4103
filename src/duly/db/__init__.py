"""Database access: embedded server, connection pool, named statements, migrations, catalogue fingerprint."""
