"""Functions that tell the planner what not to do also keep PostgreSQL from compiling what then looks expensive."""

import psycopg

from duly.configuration.engine import OUR_SCHEMAS
from duly.db.migrations import Names

STEERING = """
select p.oid::regprocedure::text, coalesce(p.proconfig, '{}') as settings
from pg_proc as p
join pg_namespace as n on n.oid = p.pronamespace
where n.nspname = any (%(schemas)s) and (array_to_string(p.proconfig, ' ') ~ '\\menable_' or p.prosrc ~ '\\menable_')
order by 1
"""


def test_every_function_with_planner_settings_disables_jit(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as admin:
        found = admin.execute(STEERING, {"schemas": [*OUR_SCHEMAS, Names().ingest]}).fetchall()
    assert {name.partition("(")[0] for name, _ in found} >= {"ledger.claim", "ledger.done", "ledger.mark_expired"}
    assert [name for name, settings in found if "jit=off" not in settings] == []


def test_planner_settings_of_a_function_end_with_it(database: str) -> None:
    """`set local` inside a function outlives it, unless the function sets the same variable in its head."""
    with psycopg.connect(database) as admin:
        before = planner_settings(admin)
        admin.execute("select ledger.enqueue('00000000-0000-0000-0000-00000000000a', 'work')")
        claimed = admin.execute("select id from ledger.claim('{default}', '{work}', 'me/1', 60, 1)").fetchall()
        assert len(claimed) == 1
        assert planner_settings(admin) == before


def planner_settings(admin: psycopg.Connection[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Every setting that steers the planner, as it is now in this transaction."""
    return admin.execute("select name, setting from pg_settings where name ~ '^enable_|^jit$' order by name").fetchall()
