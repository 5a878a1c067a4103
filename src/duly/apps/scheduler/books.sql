-- The books as others read them.

-- name: take_snapshot
-- The pages of one export are of one moment: a reversal never comes without the entry that it takes back.
set transaction isolation level repeatable read, read only;

-- name: survey
-- What an export will hold, before its first line: how much, since when, and which categories and currencies.
select
    count(*) as entries, min(occurred_at) as first_at,
    coalesce(array_agg(distinct category) filter (where category is not null), array[]::text[]) as categories,
    coalesce(bool_or(category is null), false) as has_uncategorised,
    coalesce(array_agg(distinct currency), array[]::text[]) as currencies
from expense.expenses
where (%(user_id)s::bigint is null or user_id = %(user_id)s)
    and occurred_at >= %(from_at)s and occurred_at < %(to_at)s;
