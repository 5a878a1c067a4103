"""The page behind a link in a message: looking at it changes nothing, the button on it answers.

    GET  /c/<token>   what would happen, and a button; or what happened already
    POST /c/<token>   answers, as the button of a chat does, once

Programs that open every link of a mail only look, so they answer nothing. The token is all there is: it says whose it
is, what it does and until when, and is signed; there is no session that somebody else's page could use. Nothing of it
is cached, framed, searched, or told to another site.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Path, Request, Response, status
from fastapi.responses import HTMLResponse

from duly.accounts.model import User
from duly.accounts.service import find_person
from duly.accounts.signed_links import Link, list_link_keys, read_link
from duly.apps.scheduler import service
from duly.apps.scheduler.model import Action, Answer, Receipt, Run, RunStatus
from duly.apps.scheduler.receipt import first_of
from duly.apps.scheduler.repository import receipt_of
from duly.db.clock import now
from duly.db.pool import Pool
from duly.errors import AlreadyAnswered, Conflict, NotFound, Refused
from duly.http.answer_texts import words_of
from duly.http.dependencies import Opened

__all__ = ["router"]

OPEN = tuple(each for each in RunStatus if each.is_open)
STYLE = files("duly.http").joinpath("pages/answer.css").read_text("utf-8")
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        f"style-src 'sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex, nofollow",
}

router = APIRouter(prefix="/c", include_in_schema=False)  # a page for people, no part of the API
Token = Annotated[str, Path()]


@dataclass(frozen=True, slots=True)
class Found:
    """What a link leads to: whose it is, and the run that it answers, which is theirs."""

    link: Link
    person: User
    run: Run


@router.get("/{token}")
async def show_answer(request: Request, token: Token, pool: Opened) -> Response:
    """What the link would do, or what was done already."""
    found = await find(request, token, pool)
    if not isinstance(found, Found):
        return found
    link, person, run = found.link, found.person, found.run
    mine = await receipt_under(pool, person, run, link.key)
    if mine and is_still_so(mine, run):
        return page(person, run, said(person, mine), more=told(person, mine))
    if run.status not in OPEN:
        return await ended(pool, person, run, status.HTTP_200_OK)
    words = words_of(person.language)
    booked = await booking_of(pool, person, run, link)
    return page(
        person,
        run,
        words[f"ask {link.action}"].format(minutes=link.given.get("minutes", "")),
        more=[words["will book"].format(**booked)] if booked else [],
        deed=words[link.action],
    )


@router.post("/{token}")
async def give_answer(request: Request, token: Token, pool: Opened) -> Response:
    """Answer, once: the first answer counts, whoever gives it and by which way."""
    found = await find(request, token, pool)
    if not isinstance(found, Found):
        return found
    link, person, run = found.link, found.person, found.run
    try:
        answer = Answer(Action(link.action), link.key, link.given)
        receipt = (await service.answer_run(pool, person.id, link.run, answer)).row
    except AlreadyAnswered as error:
        first = receipt_of(error.receipt) if error.receipt else None
        return answered(person, run, first, status.HTTP_409_CONFLICT)
    except Conflict:
        return await ended(pool, person, run, status.HTTP_409_CONFLICT)
    except Refused:
        return no_page("unknown", status.HTTP_404_NOT_FOUND, person.language)
    if not is_still_so(receipt, run):
        return await ended(pool, person, run, status.HTTP_409_CONFLICT)
    return page(person, run, said(person, receipt), more=told(person, receipt))


# Finding --------------------------------------------------------------------------------------------------------------


async def find(request: Request, token: str, pool: Pool) -> Found | Response:
    """What a token leads to, or the page that says why it leads nowhere."""
    async with pool.statement() as connection:
        keys = await list_link_keys(connection)
    link = read_link(keys, token)
    person = await find_person(pool, link.uid) if link else None
    if link is None or person is None:
        return no_page("unknown", status.HTTP_404_NOT_FOUND)
    request.state.rate.take(f"answer:{link.uid}")
    if link.is_over(await now(pool)):
        return no_page("over", status.HTTP_410_GONE, person.language)
    try:
        return Found(link, person, await service.get_run(pool, person.id, link.run))
    except NotFound:
        return no_page("unknown", status.HTTP_404_NOT_FOUND, person.language)


async def receipt_under(pool: Pool, person: User, run: Run, key: str) -> Receipt | None:
    """What this very link did before."""
    receipts = await service.list_receipts(pool, person.id, run.id)
    return next((each for each in receipts if each.idempotency_key == key), None)


def is_still_so(receipt: Receipt, run: Run) -> bool:
    """Is what an answer did still so? A snooze is not, once its run has come to its end."""
    return receipt.action is not Action.SNOOZE or run.status in OPEN


async def booking_of(pool: Pool, person: User, run: Run, link: Link) -> Mapping[str, Any] | None:
    """What an answer would book."""
    if link.action != Action.COMPLETE:
        return None
    return (await service.get_schedule(pool, person.id, run.job_id)).expense


# Saying ---------------------------------------------------------------------------------------------------------------


async def ended(pool: Pool, person: User, run: Run, code: int) -> Response:
    """The page of a run that takes no more answers: the one that ended it, if any did."""
    return answered(person, run, first_of(await service.list_receipts(pool, person.id, run.id)), code)


def answered(person: User, run: Run, first: Receipt | None, code: int) -> Response:
    """The page of a run that has its answer."""
    words = words_of(person.language)
    if first is None:
        return page(person, run, words["closed"], code=code)
    return page(person, run, words["answered"], more=[said(person, first), *told(person, first)], code=code)


def said(person: User, receipt: Receipt) -> str:
    """What an answer did, in a sentence."""
    return words_of(person.language)[f"did {receipt.action}"]


def told(person: User, receipt: Receipt) -> list[str]:
    """The rest of a receipt."""
    words = words_of(person.language)
    lines = [at(person, words["answered at"], receipt.confirmed_at)]
    if receipt.expense:
        lines.append(words["booked"].format(**receipt.expense))
    if receipt.remind_at:
        lines.append(at(person, words["again at"], receipt.remind_at))
    return lines


def at(person: User, words: str, instant: datetime) -> str:
    """These words, with a time as the person's clock shows it."""
    return words.format(at=instant.astimezone(ZoneInfo(person.zone)).strftime("%Y-%m-%d %H:%M"), zone=person.zone)


def page(
    person: User, run: Run, words: str, *, more: Sequence[str] = (), deed: str | None = None, code: int = 200
) -> Response:
    """A page about a run."""
    lines = [at(person, words_of(person.language)["when"], run.scheduled_at)]
    return rendered(code, language=person.language, title=run.name, lines=lines, said=words, more=more, deed=deed)


def no_page(what: str, code: int, language: str = "en") -> Response:
    """A page about a link that does nothing."""
    words = words_of(language)
    return rendered(code, language=language, title=words[what], lines=(), said=words[f"{what} why"], more=(), deed=None)


def rendered(code: int, **said: Any) -> Response:
    """The page itself; whatever a person wrote is escaped."""
    return HTMLResponse(template().render(style=style(), **said), status_code=code, headers=HEADERS)


@cache
def template() -> Any:
    """The page's shape."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("duly.http", "pages")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template("answer.html")


@cache
def style() -> Any:
    """Our own style, which is the only thing that goes in as it is; the headers name its hash."""
    from markupsafe import Markup

    return Markup(STYLE)  # noqa: S704
