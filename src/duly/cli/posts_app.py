"""What `duly posts` offers."""

from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from duly.cli.ids import id_argument

__all__ = ["posts_app"]

posts_app = typer.Typer(help="Posts: one per person and day, released six hours later.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
Id = Annotated[Any, id_argument("post")]
User = Annotated[str, typer.Option("--user", metavar="UID", help="Whose post.")]


@posts_app.command("create")
def posts_create(
    image: Annotated[Path, typer.Argument(help="The photograph: JPEG, PNG or WebP.", exists=True, dir_okay=False)],
    user: User,
    caption: Annotated[str, typer.Option(help="The words to it.")] = "",
    request_id: Annotated[
        UUID | None, typer.Option(help="The same id and request make one post. Default: a new one.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make the post of a person's day; it is released six hours later.

    Example: duly posts create sunset.jpg --user anna --caption 'My day'
    """
    from duly.cli.posts import create_post

    create_post(image, user, caption, request_id, as_json)


@posts_app.command("list")
def posts_list(
    author: Annotated[
        str | None, typer.Option(metavar="UID", help="This person's, waiting ones too. Default: what is released.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="So many at most.")] = 20,
    place: Annotated[str | None, typer.Option(help="Go on here: what the page before gave as next.")] = None,
    as_json: Json = False,
) -> None:
    """Show posts, the newest first.

    Example: duly posts list --author anna
    """
    from duly.cli.posts import list_posts

    list_posts(author, limit, place, as_json)


@posts_app.command("show")
def posts_show(post: Id, as_json: Json = False) -> None:
    """Show a post.

    Example: duly posts show 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """
    from duly.cli.posts import show_post

    show_post(post, as_json)


@posts_app.command("timeline")
def posts_timeline(post: Id, as_json: Json = False) -> None:
    """Show what happened to a post, in order.

    Example: duly posts timeline 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """
    from duly.cli.posts import show_timeline

    show_timeline(post, as_json)


@posts_app.command("explain")
def posts_explain(post: Id, as_json: Json = False) -> None:
    """Say in one sentence why a post has not appeared.

    Example: duly posts explain 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """
    from duly.cli.posts import explain_post

    explain_post(post, as_json)


@posts_app.command("edit")
def posts_edit(
    post: Id, user: User, caption: Annotated[str, typer.Option(help="The new words.")], as_json: Json = False
) -> None:
    """Change the caption of a post that waits.

    Example: duly posts edit 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77 --user anna --caption 'My evening'
    """
    from duly.cli.posts import edit_post

    edit_post(post, user, caption, as_json)


@posts_app.command("release")
def posts_release(as_json: Json = False) -> None:
    """Release everything that is due, here and now, and end. Workers do the same all the time.

    Example: duly posts release
    """
    from duly.cli.posts import release_posts

    release_posts(as_json)


@posts_app.command("repair")
def posts_repair(as_json: Json = False) -> None:
    """Let posts wait again whose holders are gone. Workers do the same all the time.

    Example: duly posts repair --json
    """
    from duly.cli.posts import repair_posts

    repair_posts(as_json)


@posts_app.command("import-legacy")
def posts_import_legacy(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="One document a line, or one JSON array of documents.", exists=True, dir_okay=False
        ),
    ],
    as_json: Json = False,
) -> None:
    """Import documents of the first version; again adds nothing. Refused ones are all named; exit 1 when there are any.

    Example: duly posts import-legacy posts.jsonl
    """
    from duly.cli.posts import import_posts

    import_posts(file, as_json)
