"""The commands of posts."""
