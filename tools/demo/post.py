"""A post is accepted, waits six hours, and is released with its reading."""

from uuid import UUID, uuid4

from duly.apps.posts import service
from duly.apps.posts.explain import explain
from duly.apps.posts.model import Intent, Post, PostStatus
from duly.storage import clean_photo
from tools.demo.stage import Stage

PHOTO = "evening.jpg"
CAPTION = "A calm evening by the sea, after a lovely day with good friends."


async def tell_post(stage: Stage) -> None:
    """Bring a photo, ask for a post of it, let six hours pass."""
    author = stage.anna.uid
    photo = clean_photo((stage.pictures / PHOTO).read_bytes())
    image = await service.upload_image(stage.pool, stage.objects, author, photo)
    made = await service.create_intent(stage.pool, stage.objects, Intent(author, image, CAPTION, uuid4()))
    key = UUID(str(made.row["postId"]))
    stage.tell.say(f"Anna posts a photo, fixtures/demo/{PHOTO}: “{CAPTION}” Nobody sees it yet. `explain` says:")
    stage.tell.quote((await explain(stage.pool, stage.anna.uid, key, zone=None)).sentence)
    stage.tell.command("posts", "explain", str(key))
    waiting = await service.get_post(stage.pool, author, key)
    assert waiting.release_time, "a post that waits has a time to wait for"
    await stage.pass_time(waiting.release_time, "Six hours pass")
    post = await until_released(stage, key)
    reading = post.ai or {}
    stage.tell.say(
        f"It is {post.status}, with its reading, which rules made, without a model or a network: the mood is "
        f"{reading.get('mood')}, the music that goes with it {reading.get('music')}. And it says how it came to that:"
    )
    stage.tell.quote(str(reading.get("reasoning")))
    stage.tell.command("posts", "show", str(key))
    stage.tell.command("posts", "timeline", str(key))
    message = await stage.until_sent("post.released", lambda: why(stage, key))
    stage.tell.say("Anna is told so, on the console:")
    stage.tell.quote(stage.printed(message.id))
    stage.tell.command("notifications", "show", str(message.id))


async def until_released(stage: Stage, key: UUID) -> Post:
    """The post, once everybody may see it."""

    async def look() -> Post | None:
        post = await service.get_post(stage.pool, stage.anna.uid, key)
        return post if post.status is PostStatus.RELEASED else None

    return await stage.until("the post is released", look, lambda: why(stage, key))


async def why(stage: Stage, key: UUID) -> str:
    """Where the post is, and why."""
    found = await explain(stage.pool, stage.anna.uid, key, zone=None)
    return f"the post {key} is {found.status}. {found.sentence}"
