"""Ingest: photographed day schedules become versions, semantic events and messages, in one transaction.

    pending ---> processing ---> done        the day is written down, or it is as it was
       |            |    ^ \
       |            |    +-- lapsed: another worker takes it over
       +------------+------> failed          with a sentence for its person; of no day anything is written

    photographs --eyes----> payload --canonical form--> hash, version
                                            |
                                            +--> shifts --diff with the snapshot--> events --> messages

A day has one canonical form, which feeds the hash, the snapshot and the diff. A new version is written exactly when it
changed; replaying a day's events over nothing rebuilds its snapshot. One worker writes about a person's day at a time.
"""

from duly.apps.ingest.canonical import CANONICALIZER, Observation, observe
from duly.apps.ingest.diff import Change, EventType, diff, replay
from duly.apps.ingest.reading import Reader
from duly.apps.ingest.shift import Shift
from duly.apps.ingest.states import CAPTURE_MACHINE, States, capture_machine, capture_session

__all__ = [
    "CANONICALIZER",
    "CAPTURE_MACHINE",
    "Change",
    "EventType",
    "Observation",
    "Reader",
    "Shift",
    "States",
    "capture_machine",
    "capture_session",
    "diff",
    "observe",
    "replay",
]
