"""Server: version, durability, connections, timeouts, autovacuum and JIT."""

from collections.abc import Sequence

from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.context import CheckContext
from duly.doctor.finding import Note, bad, ok, warn
from duly.doctor.network import is_pooled
from duly.settings import is_for_tests
from duly.verify.access import quote_identifier

SQL = load_queries(__file__, "server.sql")


def check_server(context: CheckContext) -> Sequence[Note]:
    """Check that duly is tested on this version of PostgreSQL."""
    server, limits = get_version(context), context.limits
    info = context.connection.info
    found = f"PostgreSQL {server['version']} at {info.host}:{info.port}/{info.dbname} as {context.login}"
    if server["major"] < limits.oldest_major:
        return [bad(f"{found}: too old", f"upgrade the server to PostgreSQL {limits.oldest_major} or later")]
    if server["major"] > limits.newest_major:
        tested = f"newer than {limits.newest_major}, the newest that duly is tested on"
        return [warn(f"{found}: {tested}", f"upgrade duly, or use PostgreSQL {limits.newest_major}")]
    return [ok(found)]


def get_version(context: CheckContext) -> Row:
    """Return the full and the major version of the server."""
    return context.query_one(SQL.get_version)


def check_durability(context: CheckContext) -> Sequence[Note]:
    """Check that an acknowledged commit survives a crash."""
    found = get_durability(context)
    notes: list[Note] = []
    if found["fsync"] == "off":
        make_note = warn if is_for_tests(found["name"]) else bad
        notes.append(make_note("fsync is off: a power cut destroys the database", enable_setting("fsync")))
    if found["full_page_writes"] == "off":
        notes.append(
            warn("full_page_writes is off: a power cut leaves torn pages", enable_setting("full_page_writes")),
        )
    if found["synchronous_commit"] in ("off", "local"):
        mode = found["synchronous_commit"]
        lost = "a crash loses the last commits" if mode == "off" else "a failover loses the last commits"
        notes.append(
            warn(
                f"synchronous_commit is {mode}: {lost}",
                f"alter role {quote_identifier(context.login)} set synchronous_commit = on",
            )
        )
    settings = f"fsync on, full_page_writes on, synchronous_commit {found['synchronous_commit']}"
    return notes or [ok(settings)]


def get_durability(context: CheckContext) -> Row:
    """Return the name of the database and its durability settings."""
    return context.query_one(SQL.get_durability)


def enable_setting(setting: str) -> str:
    """Return the statements that enable a server setting without a restart."""
    return f"alter system set {setting} = on; select pg_reload_conf()"


def check_connections(context: CheckContext) -> Sequence[Note]:
    """Check that there are free connections for another process."""
    count = count_connections(context)
    used, usable, pool = count["used"], count["usable"], context.settings.pool_size
    found = f"{used} of {usable} connections in use ({used / usable:.0%}), DULY_POOL_SIZE={pool}"
    if used > context.limits.connections_share * usable:
        return [
            warn(found, "end idle clients, put a pooler before the server, or raise max_connections and restart it")
        ]
    if pool > usable - used and not is_pooled(context, context.address):
        free = usable - used
        return [
            warn(f"{found}: not enough for another process", f"set DULY_POOL_SIZE={free}, or raise max_connections")
        ]
    return [ok(found)]


def count_connections(context: CheckContext) -> Row:
    """Return the used and the usable connections."""
    return context.query_one(SQL.count_connections)


def check_timeouts(context: CheckContext) -> Sequence[Note]:
    """Check that the server ends sessions that stay idle in a transaction."""
    logins = [context.settings.worker_role, context.settings.api_role] if context.is_embedded else [context.login]
    found = list_idle_timeouts(context, logins)
    if not found:
        return [warn(f"there is no role {' or '.join(logins)} yet", "duly migrate")]
    unlimited = [row["login"] for row in found if row["is_off"]]
    if unlimited:
        fix = [
            f"alter role {quote_identifier(login)} set idle_in_transaction_session_timeout = '1min'"
            for login in unlimited
        ]
        lost = f"idle_in_transaction_session_timeout is 0 for {', '.join(unlimited)}: a forgotten transaction stays"
        return [warn(lost, "; ".join(fix))]
    return [ok(f"{row['login']} is ended after {row['value']} idle in a transaction") for row in found]


def list_idle_timeouts(context: CheckContext, logins: Sequence[str]) -> Sequence[Row]:
    """Return idle_in_transaction_session_timeout of each existing login."""
    return context.query(SQL.list_idle_timeouts, logins=logins)


def check_autovacuum(context: CheckContext) -> Sequence[Note]:
    """Check that autovacuum is on."""
    found = get_autovacuum(context)
    off = [name for name, value in found.items() if value == "off"]
    if off:
        lost = f"{' and '.join(off)} off: tables with many updates grow without bound"
        return [warn(lost, "; ".join(enable_setting(name) for name in off))]
    return [ok("on")]


def get_autovacuum(context: CheckContext) -> Row:
    """Return the two settings that autovacuum needs."""
    return context.query_one(SQL.get_autovacuum)


def check_jit(context: CheckContext) -> Sequence[Note]:
    """Check that the server does not JIT-compile short statements, which takes longer than running them."""
    return note_jit(get_jit(context), context.login, context.limits.jit_above_cost)


def note_jit(found: Row, login: str, default_cost: float) -> Sequence[Note]:
    """Note JIT settings that slow duly down; none if its functions disable JIT and the threshold is the default."""
    if not found["is_on"]:
        return [ok("JIT is off, or the server has none")]
    notes: list[Note] = []
    if functions := found["compiled"]:
        fix = "; ".join(f"alter function {function} set jit = off" for function in functions)
        notes.append(warn(f"jit is on, and calls are compiled every time: {', '.join(functions)}", fix))
    if found["above_cost"] < default_cost:
        lost = f"jit is on with jit_above_cost = {found['above_cost']:g}, so short statements are compiled"
        fix = f"alter role {quote_identifier(login)} set jit = off, or set jit_above_cost to {default_cost:g} or more"
        notes.append(warn(lost, fix))
    return notes or [ok("jit is on; functions of duly disable it for themselves")]


def get_jit(context: CheckContext) -> Row:
    """Return whether JIT is on, its cost threshold, and the functions that do not disable it."""
    return context.query_one(SQL.get_jit)
