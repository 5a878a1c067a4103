"""The commands of ingest."""
