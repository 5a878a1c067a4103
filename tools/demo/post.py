"""A post is accepted, waits six hours, and is released with its reading."""

from uuid import UUID, uuid4

from duly.apps.posts import service
from duly.apps.posts.explain import PostSituation, explain, find_situation
from duly.apps.posts.model import Intent, Post, PostStatus
from duly.storage import clean_photo
from tools.demo.stage import Stage

PHOTO = "evening.jpg"
CAPTION = "A calm evening by the sea, after a lovely day with good friends."


async def run_post_chapter(stage: Stage) -> None:
    """Upload a photo, create a post of it, and move the clock by six hours."""
    author = stage.anna.uid
    photo = clean_photo((stage.pictures / PHOTO).read_bytes())
    image = await service.upload_image(stage.pool, stage.objects, author, photo)
    made = await service.create_intent(stage.pool, stage.objects, Intent(author, image, CAPTION, uuid4()))
    key = UUID(str(made.row["postId"]))
    await until_a_worker_is_seen(stage, key)
    stage.narrator.say(f"Anna posts a photo, fixtures/demo/{PHOTO}: “{CAPTION}” It is not visible yet. `explain` says:")
    stage.narrator.quote((await explain(stage.pool, stage.anna.uid, key, zone=None)).sentence)
    stage.narrator.command("posts", "explain", str(key))
    waiting = await service.get_post(stage.pool, author, key)
    assert waiting.release_time, "a post that waits has a time to wait for"
    await stage.pass_time(waiting.release_time, "Six hours pass")
    post = await until_released(stage, key)
    reading = post.ai or {}
    stage.narrator.say(
        f"It is {post.status}, with a reading by rules, which need no model and no network: the mood is "
        f"{reading.get('mood')}, the music that goes with it {reading.get('music')}. The reasoning is stored too:"
    )
    stage.narrator.quote(str(reading.get("reasoning")))
    stage.narrator.command("posts", "show", str(key))
    stage.narrator.command("posts", "timeline", str(key))
    message = await stage.until_sent("post.released", lambda: describe(stage, key))
    stage.narrator.say("Anna is notified on the console:")
    stage.narrator.quote(stage.printed(message.id))
    stage.narrator.command("notifications", "show", str(message.id))


async def until_a_worker_is_seen(stage: Stage, key: UUID) -> None:
    """Wait for the worker's next sign of life: after the clock was moved the last one looks as if it had vanished."""

    async def fetch() -> PostSituation | None:
        async with stage.pool.transaction() as connection:
            situation = await find_situation(connection, key, stage.anna.uid, None)
        return situation if situation and situation.workers else None

    await stage.until("the worker is seen", fetch, lambda: describe(stage, key))


async def until_released(stage: Stage, key: UUID) -> Post:
    """Return the post once it is released."""

    async def fetch() -> Post | None:
        post = await service.get_post(stage.pool, stage.anna.uid, key)
        return post if post.status is PostStatus.RELEASED else None

    return await stage.until("the post is released", fetch, lambda: describe(stage, key))


async def describe(stage: Stage, key: UUID) -> str:
    """Describe the state of the post and the reason for it."""
    found = await explain(stage.pool, stage.anna.uid, key, zone=None)
    return f"the post {key} is {found.status}. {found.sentence}"
