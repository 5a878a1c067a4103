-- Expenses for export.

-- name: use_snapshot
-- All pages of one export come from one snapshot: a reversal never appears without the expense that it reverses.
set transaction isolation level repeatable read, read only;

-- name: summarize_export
-- Count, first date, categories and currencies of an export, needed before its first line.
select
    count(*) as entries, min(occurred_at) as first_at,
    coalesce(array_agg(distinct category) filter (where category is not null), array[]::text[]) as categories,
    coalesce(bool_or(category is null), false) as has_uncategorised,
    coalesce(array_agg(distinct currency), array[]::text[]) as currencies
from expense.expenses
where (%(user_id)s::bigint is null or user_id = %(user_id)s)
    and occurred_at >= %(from_at)s and occurred_at < %(to_at)s;
