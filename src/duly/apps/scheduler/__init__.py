"""The scheduler: recurring schedules, the reminders they send, and the answers to them.

    schedule --- planned ahead ---> run --- due ---> message in the outbox --- sent ---> reminder
                                     |
                                     +--- answered once ---> confirmation, and one expense

A schedule has a rule, in a time zone. Its runs are created ahead of time, exactly one for every period of the rule.
When a run is due its reminder is inserted into the outbox, with the buttons that answer it; the sender marks the run as
sent. An answer counts once, however many taps it took, and books one expense for the schedule and the period.
"""
