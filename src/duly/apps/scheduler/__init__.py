"""The scheduler: recurring schedules, the reminders they send, and the answers to them.

    schedule --- planned ahead ---> run --- due ---> message in the outbox --- sent ---> reminder
                                     |
                                     +--- answered once ---> confirmation, and one expense

A schedule has a rule, in a time zone. An instant at which the rule fires is a firing; it lies in a period, such as a
month. Runs are created ahead of time, at most one for a period: a row that is reminded of and answered. When a run
is due, a message is inserted into the outbox, with the buttons that answer it; once that is sent it is a reminder, and
the run is `sent`. A final answer (complete, skip, cancel) counts once, however many taps it took, and `complete` books
one expense for the schedule and the period. Planning is to compute the next firings; its state is the plan, a row of
`scheduler.job_plans`.

What is not in Python: functions.sql has the functions that answer and reverse, the triggers that act
when a schedule is changed, a message is sent or a user moves to another zone, and the views of due and upcoming runs.
"""
