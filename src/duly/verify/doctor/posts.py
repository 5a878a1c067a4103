"""Posts: who reads them, and are their promises kept?"""

from collections.abc import Sequence

from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.verify.doctor.case import Case
from duly.verify.doctor.finding import Note, ok, warn
from duly.verify.doctor.words import span

__all__ = ["check_posts"]

SQL = load_queries(__file__, "posts.sql")


def check_posts(case: Case) -> Sequence[Note]:
    """Is a promise broken? And where do captions and photographs go?"""
    if case.is_only_backends:
        return [ok("there are none here")]
    broken = [f"the promise '{row['name']}' is broken for {span(row['seconds'])}" for row in list_breaches(case)]
    settings = case.settings
    if settings.posts_analyzer == "rules":
        read = "they are read by the built-in rules, and leave this machine for nobody"
    else:
        read = f"they are read by {settings.openai_model} at {settings.openai_base_url or 'OpenAI'}, which is sent them"
    return [warn(each, "duly slo") for each in broken] or [ok(f"no promise is broken; {read}")]


def list_breaches(case: Case) -> Sequence[Row]:
    """Promises that are broken, asked as the worker."""
    return case.ask(SQL.list_breaches, role=case.settings.worker_role)
