-- The log of every state machine except that of jobs.

-- name: list_transitions
-- The transitions of a row, in order.
select seq, ts, prev_status, next_status, actor, detail_json
from duly.transition
where machine = %(machine)s and key = %(key)s::text and seq > %(after_seq)s
order by seq
limit %(limit)s;
