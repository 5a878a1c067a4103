"""Posts: service level objectives, overdue posts, and where they are analyzed."""

from collections.abc import Sequence

from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.context import CheckContext
from duly.doctor.finding import Note, ok, warn
from duly.formatting import format_duration

SQL = load_queries(__file__, "doctor.sql")
LATE_SECONDS = 120  # the target of the release lag
MAX_COUNTED = 10_000


def check_posts(context: CheckContext) -> Sequence[Note]:
    """Check whether an objective is breached, and note who gets captions and photographs."""
    if context.is_backend_only:
        return [ok("there are none here")]
    notes = [
        warn(f"objective '{row['name']}' is breached for {format_duration(row['seconds'])}", "duly slo")
        for row in list_breaches(context)
    ]
    overdue = find_overdue(context)
    if overdue["posts"]:
        posts = "1 post is" if overdue["posts"] == 1 else f"{overdue['posts']} posts are"
        found = (
            f"{posts} overdue by more than {LATE_SECONDS // 60} minutes and not released, "
            f"the oldest for {format_duration(overdue['seconds'])}"
        )
        notes.append(warn(found, "start a worker: duly worker --only posts; see duly posts explain"))
    settings = context.settings
    if settings.posts_analyzer == "rules":
        analyzer = "they are read by the built-in rules on this machine"
    else:
        analyzer = f"they are sent to {settings.openai_model} at {settings.openai_base_url or 'OpenAI'}"
    return notes or [ok(f"no objective is breached; {analyzer}")]


def list_breaches(context: CheckContext) -> Sequence[Row]:
    """Return breached objectives, as the worker role."""
    return context.query(SQL.list_breaches, role=context.settings.worker_role)


def find_overdue(context: CheckContext) -> Row:
    """Return how many posts are overdue, and by how long the oldest."""
    role = context.settings.worker_role
    return context.query(SQL.find_overdue, role=role, late_seconds=LATE_SECONDS, limit=MAX_COUNTED)[0]
