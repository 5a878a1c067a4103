"""Outbox: a message is written in the transaction that causes it, and sent afterwards by one sender at a time.

    pending ---claim---> sending ---accepted by the transport---> sent
       ^                    |
       |<----- retry -------+
       |                    +------ outcome unknown -----------> uncertain ---> sent, failed, or pending (same id)
       |                    |
       |                    +------ permanent failure ---------> failed <--- pending, withdrawn
       |                                                           |
       +---------------------- redriven ---------------------------+

`duly.outbox` is written in the transaction of the application, so a message exists exactly when the change it reports
is committed. Every transport gets the message id at every attempt, to deduplicate on. A send whose outcome is unknown
is marked `uncertain`, never `sent`.
"""

from duly.outbox.states import OUTBOX

__all__ = ["OUTBOX"]
