"""The HTTP routes of ingest."""

from duly.apps.ingest.http import days, sessions
from duly.http.application import HttpPart

HTTP = HttpPart((sessions.sessions, sessions.images, days.days))
