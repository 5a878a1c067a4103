"""The server: is it one that duly is tested on, does it keep what it acknowledged, and has it room?"""

from collections.abc import Sequence

from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.case import Case
from duly.doctor.finding import Note, bad, ok, warn
from duly.doctor.way import leads_through_pooler
from duly.doctor.words import quoted
from duly.settings import is_for_tests

__all__ = [
    "check_autovacuum",
    "check_connections",
    "check_durability",
    "check_jit",
    "check_server",
    "check_timeouts",
    "get_jit",
    "notes_on_jit",
]

SQL = load_queries(__file__, "server.sql")


def check_server(case: Case) -> Sequence[Note]:
    """Is it a PostgreSQL that duly is tested on?"""
    server, limits = get_version(case), case.limits
    info = case.connection.info
    found = f"PostgreSQL {server['version']} at {info.host}:{info.port}/{info.dbname} as {case.login}"
    if server["major"] < limits.oldest_major:
        return [bad(f"{found}: too old", f"upgrade the server to PostgreSQL {limits.oldest_major} or later")]
    if server["major"] > limits.newest_major:
        tested = f"newer than {limits.newest_major}, the newest that duly is tested on"
        return [warn(f"{found}: {tested}", f"upgrade duly, or use PostgreSQL {limits.newest_major}")]
    return [ok(found)]


def get_version(case: Case) -> Row:
    """The server's version, whole and its major."""
    return case.get(SQL.get_version)


def check_durability(case: Case) -> Sequence[Note]:
    """Does a commit that was acknowledged outlive a crash?"""
    found = get_durability(case)
    notes: list[Note] = []
    if found["fsync"] == "off":
        tell = warn if is_for_tests(found["name"]) else bad
        notes.append(tell("fsync is off: a power cut destroys the database", reload_with("fsync")))
    if found["full_page_writes"] == "off":
        notes.append(
            warn("full_page_writes is off: a power cut leaves torn pages", reload_with("full_page_writes")),
        )
    if found["synchronous_commit"] in ("off", "local"):
        mode = found["synchronous_commit"]
        lost = "a crash loses the last commits" if mode == "off" else "a failover loses the last commits"
        notes.append(
            warn(
                f"synchronous_commit is {mode}: {lost}", f"alter role {quoted(case.login)} set synchronous_commit = on"
            )
        )
    on = f"fsync on, full_page_writes on, synchronous_commit {found['synchronous_commit']}"
    return notes or [ok(on)]


def get_durability(case: Case) -> Row:
    """The database's name, and the settings that a commit rests on."""
    return case.get(SQL.get_durability)


def reload_with(setting: str) -> str:
    """How a setting of the server is switched on without a restart."""
    return f"alter system set {setting} = on; select pg_reload_conf()"


def check_connections(case: Case) -> Sequence[Note]:
    """Is there room for one process more?"""
    count = count_connections(case)
    used, usable, pool = count["used"], count["usable"], case.settings.pool_size
    found = f"{used} of {usable} connections in use ({used / usable:.0%}), DULY_POOL_SIZE={pool}"
    if used > case.limits.connections_share * usable:
        return [
            warn(found, "end idle clients, put a pooler before the server, or raise max_connections and restart it")
        ]
    if pool > usable - used and not leads_through_pooler(case, case.address):
        free = usable - used
        return [warn(f"{found}: no room for one process more", f"set DULY_POOL_SIZE={free}, or raise max_connections")]
    return [ok(found)]


def count_connections(case: Case) -> Row:
    """How many are in use, of how many that are usable."""
    return case.get(SQL.count_connections)


def check_timeouts(case: Case) -> Sequence[Note]:
    """Is a session that forgets its transaction ended by the server?"""
    logins = [case.settings.worker_role, case.settings.api_role] if case.is_embedded else [case.login]
    found = list_idle_timeouts(case, logins)
    if not found:
        return [warn(f"there is no login {' or '.join(logins)} yet", "duly migrate")]
    endless = [row["login"] for row in found if row["is_off"]]
    if endless:
        fix = [f"alter role {quoted(login)} set idle_in_transaction_session_timeout = '1min'" for login in endless]
        lost = f"idle_in_transaction_session_timeout is 0 for {', '.join(endless)}: a forgotten transaction stays"
        return [warn(lost, "; ".join(fix))]
    return [ok(f"{row['login']} is ended after {row['value']} idle in a transaction") for row in found]


def list_idle_timeouts(case: Case, logins: Sequence[str]) -> Sequence[Row]:
    """How long each of these logins may be idle in a transaction; one that is not there is left out."""
    return case.ask(SQL.list_idle_timeouts, logins=logins)


def check_autovacuum(case: Case) -> Sequence[Note]:
    """Are dead rows cleared away by themselves?"""
    found = get_autovacuum(case)
    off = [name for name, value in found.items() if value == "off"]
    if off:
        lost = f"{' and '.join(off)} off: tables that change much grow without end"
        return [warn(lost, "; ".join(reload_with(name) for name in off))]
    return [ok("on")]


def get_autovacuum(case: Case) -> Row:
    """The two settings without which autovacuum does nothing."""
    return case.get(SQL.get_autovacuum)


def check_jit(case: Case) -> Sequence[Note]:
    """Does the server compile short statements, which takes longer than to run them?"""
    return notes_on_jit(get_jit(case), case.login, case.limits.jit_above_cost)


def notes_on_jit(found: Row, login: str, usual_cost: float) -> Sequence[Note]:
    """What JIT means for duly: nothing where its functions switch it off and the threshold is the usual one."""
    if not found["is_on"]:
        return [ok("JIT is off, or the server has none")]
    notes: list[Note] = []
    if functions := found["compiled"]:
        fix = "; ".join(f"alter function {function} set jit = off" for function in functions)
        notes.append(warn(f"jit is on, and calls are compiled every time: {', '.join(functions)}", fix))
    if found["above_cost"] < usual_cost:
        lost = f"jit is on with jit_above_cost = {found['above_cost']:g}, so short statements are compiled"
        fix = f"alter role {quoted(login)} set jit = off, or set jit_above_cost to {usual_cost:g} or more"
        notes.append(warn(lost, fix))
    return notes or [ok("jit is on; functions of duly switch it off for themselves")]


def get_jit(case: Case) -> Row:
    """Whether statements of this login are compiled, from which cost on, and which functions do not prevent it."""
    return case.get(SQL.get_jit)
