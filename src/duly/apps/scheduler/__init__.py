"""The scheduler: what recurs, whom to remind of it, and what they answered.

    schedule --- planned ahead ---> run --- due ---> message in the outbox --- sent ---> reminder
                                     |
                                     +--- answered once ---> confirmation, and one entry in the books

A schedule has a rule, in a zone. Its runs are made ahead of time, exactly one for every period the rule has. When a run
is due its reminder is written into the outbox, with the buttons that answer it; whoever sends it notes so. An answer
counts once, whatever number of taps it came in, and what it books is booked once for the schedule and the period.
"""

from duly.apps.scheduler.rule import Grain, Rule, parse_rule
from duly.apps.scheduler.states import PLAN, RUN_MACHINE, SCHEDULE_MACHINE

__all__ = ["PLAN", "RUN_MACHINE", "SCHEDULE_MACHINE", "Grain", "Rule", "parse_rule"]
