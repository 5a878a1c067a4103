"""What the application posts brings."""

from pathlib import Path

from duly.applications import Application, Command, Machine

POSTS = Application(
    name="posts",
    directory=Path(__file__).parent,
    schemas=("posts",),
    settings="duly.apps.posts.settings:PostsSettings",
    machines=(Machine("post", "posts.posts", "status", stays=("PENDING",)),),
    commands=(
        Command("posts", "duly.apps.posts.cli.posts", "Posts: one per person and day, released six hours later."),
        Command("slo", "duly.apps.posts.cli.slo", "Show whether the service level objectives of posts are met."),
    ),
    http="duly.apps.posts.http:HTTP",
    works={"posts": "duly.apps.posts.build_work:build_post_work"},
    checks={"posts": "duly.apps.posts.doctor:check_posts"},
    computed_invariants={},
)
