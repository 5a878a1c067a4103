"""Ways to send a message."""
