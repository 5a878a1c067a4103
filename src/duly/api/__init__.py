"""The HTTP door. Today it says whether duly lives and whether its database answers."""
