-- The log that every machine but the ledger's writes into.

-- name: list_transitions
-- Everything that happened to a row, in order, as the database wrote it.
select seq, ts, prev_status, next_status, actor, detail_json
from duly.transition
where machine = %(machine)s and key = %(key)s::text and seq > %(after_seq)s
order by seq
limit %(limit)s;
