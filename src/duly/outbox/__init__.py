"""Delivery: a message is written down with what it tells of, and sent afterwards, by one sender at a time.

    pending ---claim---> sending ---the transport took it---> sent
       ^                    |
       |<--- try again -----+
       |                    +------ nobody can know ---------> uncertain ---> sent, failed, or pending: resent, same id
       |                    |
       |                    +------ it will never work ------> failed <--- pending, withdrawn
       |                                                         |
       +---------------------- redriven -------------------------+

`duly.outbox` is written in the transaction of the domain that has something to say, so a message exists exactly when
what it tells of does. Its id is given to every transport, each time, to dedupe on. A send whose outcome we cannot know
is shown as uncertain, never as success.
"""

from duly.outbox.states import OUTBOX, OUTBOX_MACHINE

__all__ = ["OUTBOX", "OUTBOX_MACHINE"]
