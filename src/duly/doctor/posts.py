"""Posts: who reads them, and are their promises kept?"""

from collections.abc import Sequence

from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.case import Case
from duly.doctor.finding import Note, ok, warn
from duly.doctor.words import span

__all__ = ["check_posts"]

SQL = load_queries(__file__, "posts.sql")
LATE_SECONDS = 120  # as the release lag counts
MAX_COUNTED = 10_000


def check_posts(case: Case) -> Sequence[Note]:
    """Is a promise broken? And where do captions and photographs go?"""
    if case.is_only_backends:
        return [ok("there are none here")]
    notes = [
        warn(f"the promise '{row['name']}' is broken for {span(row['seconds'])}", "duly slo")
        for row in list_breaches(case)
    ]
    overdue = find_overdue(case)
    if overdue["posts"]:
        several = "1 post is" if overdue["posts"] == 1 else f"{overdue['posts']} posts are"
        found = (
            f"{several} overdue by more than {LATE_SECONDS // 60} minutes and not released, "
            f"the oldest for {span(overdue['seconds'])}"
        )
        notes.append(warn(found, "start a worker: duly worker --only posts; see duly posts explain"))
    settings = case.settings
    if settings.posts_analyzer == "rules":
        read = "they are read by the built-in rules, and leave this machine for nobody"
    else:
        read = f"they are read by {settings.openai_model} at {settings.openai_base_url or 'OpenAI'}, which is sent them"
    return notes or [ok(f"no promise is broken; {read}")]


def list_breaches(case: Case) -> Sequence[Row]:
    """Promises that are broken, asked as the worker."""
    return case.ask(SQL.list_breaches, role=case.settings.worker_role)


def find_overdue(case: Case) -> Row:
    """How many posts should have been released by now, and how long the oldest is overdue."""
    role = case.settings.worker_role
    return case.ask(SQL.find_overdue, role=role, late_seconds=LATE_SECONDS, limit=MAX_COUNTED)[0]
