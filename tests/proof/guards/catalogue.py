"""The list of guards, generated: what the catalogue of a migrated database says that it refuses by."""

from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg

SYSTEM: LiteralString = "n.nspname !~ '^pg_' and n.nspname not in ('information_schema', 'public')"

# A trigger of a partitioned table is one guard, whatever it has been cloned to. Those that partitions have for
# themselves, because statement triggers are not cloned, are another, for all of them together.
TRIGGERS: LiteralString = f"""
select 'trigger', min(format('%I.%I', n.nspname, coalesce(whole.relname, c.relname)))
        || case when c.relispartition then ' (partitions)' else '' end,
    t.tgname, string_agg(format('drop trigger %I on %I.%I', t.tgname, n.nspname, c.relname), '; ' order by c.relname)
from pg_trigger as t
join pg_class as c on c.oid = t.tgrelid
join pg_namespace as n on n.oid = c.relnamespace
left join pg_inherits as i on i.inhrelid = c.oid and c.relispartition
left join pg_class as whole on whole.oid = i.inhparent
where not t.tgisinternal and t.tgparentid = 0 and {SYSTEM}
group by coalesce(whole.oid, c.oid), c.relispartition, t.tgname
"""

# Foreign keys that lean on a key go with it: they could not stand without it either.
UNIQUE: LiteralString = f"""
select 'unique', format('%I.%I', n.nspname, c.relname), coalesce(k.conname, x.relname),
    case
        when k.conname is null then format('drop index %I.%I', n.nspname, x.relname)
        else format('alter table %I.%I drop constraint %I cascade', n.nspname, c.relname, k.conname)
    end
from pg_index as i
join pg_class as c on c.oid = i.indrelid
join pg_class as x on x.oid = i.indexrelid
join pg_namespace as n on n.oid = c.relnamespace
left join pg_constraint as k on k.conindid = i.indexrelid and k.contype in ('p', 'u', 'x')
where (i.indisunique or i.indisexclusion) and not c.relispartition and {SYSTEM}
"""

# Without a policy no role sees any row; without its condition every role sees every row.
POLICIES: LiteralString = f"""
select 'policy', format('%I.%I', n.nspname, c.relname), p.polname,
    format('drop policy %I on %I.%I', p.polname, n.nspname, c.relname)
from pg_policy as p
join pg_class as c on c.oid = p.polrelid
join pg_namespace as n on n.oid = c.relnamespace
where {SYSTEM}
union all
select 'policy condition', format('%I.%I', n.nspname, c.relname), p.polname,
    format('alter policy %I on %I.%I using (true) with check (true)', p.polname, n.nspname, c.relname)
from pg_policy as p
join pg_class as c on c.oid = p.polrelid
join pg_namespace as n on n.oid = c.relnamespace
where pg_get_expr(p.polqual, p.polrelid) <> 'true' and {SYSTEM}
"""

ROW_SECURITY: LiteralString = f"""
select 'row security', format('%I.%I', n.nspname, c.relname), switch.name,
    format('alter table %I.%I %s row level security', n.nspname, c.relname, switch.off)
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace
cross join (values ('enabled', 'disable'), ('forced', 'no force')) as switch (name, off)
where case switch.name when 'enabled' then c.relrowsecurity else c.relforcerowsecurity end and {SYSTEM}
"""


@dataclass(frozen=True)
class Guard:
    """Something that refuses: what kind it is, what it stands before, what it is called, and how it is taken away."""

    kind: str
    table: str
    called: str
    removal: str

    def __str__(self) -> str:
        return f"{self.kind} {self.called} of {self.table}"


def list_guards(connection: psycopg.Connection[Any]) -> list[Guard]:
    """Every guard that this database has, in one order wherever it is asked."""
    queries: tuple[LiteralString, ...] = (TRIGGERS, UNIQUE, POLICIES, ROW_SECURITY)
    found = [Guard(*row) for each in queries for row in connection.execute(each)]
    return sorted(found, key=lambda guard: (guard.kind, guard.table, guard.called))
