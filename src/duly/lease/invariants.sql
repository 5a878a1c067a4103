-- Invariants of the log of transitions; see verify/invariants.sql.

-- name: transitions_have_no_gap
-- The transitions of a row are numbered 1, 2, 3 without a gap.
select format('%%s %%s has %%s transitions, from %%s to %%s', machine, key, count(*), min(seq), max(seq)) as offender
from duly.transition
group by machine, key
having max(seq) <> count(*) or min(seq) <> 1
order by machine, key
limit %(limit)s;

-- name: transitions_are_linked
-- Each transition begins in the state in which the previous one ended.
select format(
    '%%s %%s: transition %%s begins at %%s, the one before ended at %%s',
    machine, key, seq, prev_status, ended
) as offender
from (
    select machine, key, seq, prev_status, lag(next_status) over (partition by machine, key order by seq) as ended
    from duly.transition
) as linked
where prev_status is distinct from ended
order by machine, key, seq
limit %(limit)s;
