"""duly inside other frameworks."""
