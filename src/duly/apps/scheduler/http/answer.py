"""The page behind a link in a message: GET changes nothing, its button answers.

    GET  /c/<token>   what the link would do, with a button; or what was done before
    POST /c/<token>   answers once, like a button in a chat

Programs that open every link of an email only GET, so they answer nothing. The token is the only credential: it
contains the person, the action and the expiry, and is signed; there is no session that another site could use. The page
is not cached, framed, indexed by search engines, or sent as a referrer to another site.
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

from duly.accounts.model import Person
from duly.accounts.service import find_person
from duly.accounts.signed_links import LinkClaims, list_link_keys, verify_link
from duly.apps.scheduler import service
from duly.apps.scheduler.messages import DEFAULT_LANGUAGE, translate
from duly.apps.scheduler.model import Action, Answer, Receipt, Run, parse_receipt
from duly.apps.scheduler.receipt import find_closing_receipt
from duly.db.clock import get_current_time
from duly.db.pool import Pool
from duly.errors import AlreadyAnswered, Conflict, NotFound, Refused, ReminderNotSent
from duly.http.dependencies import PoolDep

STYLE = files("duly.apps.scheduler.http").joinpath("pages/answer.css").read_text("utf-8")
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
class AnswerTarget:
    """What a link answers: its claims, the person, and the run, which is theirs."""

    link: LinkClaims
    person: Person
    run: Run


@router.get("/{token}")
async def show_page(request: Request, token: Token, pool: PoolDep) -> Response:
    """Show what the link would do, or what was done before."""
    target = await find_target(request, token, pool)
    if not isinstance(target, AnswerTarget):
        return target
    link, person, run = target.link, target.person, target.run
    receipt = await find_receipt(pool, person, run, link.key)
    if receipt and is_still_in_effect(receipt, run):
        return result_page(person, run, receipt)
    if not run.status.is_open:
        return await closed_page(pool, person, run, status.HTTP_200_OK)
    expense = await find_expense_to_book(pool, person, run, link)
    return page(
        person,
        run,
        translate(person.language, f"page.confirm.{link.action}", minutes=link.payload.get("minutes", "")),
        details=[translate(person.language, "page.will_book", **expense)] if expense else [],
        button=translate(person.language, f"page.button.{link.action}"),
    )


@router.post("/{token}")
async def answer(request: Request, token: Token, pool: PoolDep) -> Response:
    """Answer the run; the first answer counts, by whichever channel it came."""
    target = await find_target(request, token, pool)
    if not isinstance(target, AnswerTarget):
        return target
    link, person, run = target.link, target.person, target.run
    try:
        given = Answer(Action(link.action), link.key, link.payload)
        receipt = (await service.answer_run(pool, person.schedule_owner_id, link.run_id, given)).row
    except AlreadyAnswered as error:
        first = parse_receipt(error.receipt) if error.receipt else None
        return answered_page(person, run, first, status.HTTP_409_CONFLICT)
    except ReminderNotSent:
        return page(person, run, translate(person.language, "page.not_sent"), code=status.HTTP_409_CONFLICT)
    except Conflict:
        return await closed_page(pool, person, run, status.HTTP_409_CONFLICT)
    except Refused:
        return error_page("unknown", status.HTTP_404_NOT_FOUND, person.language)
    if not is_still_in_effect(receipt, run):
        return await closed_page(pool, person, run, status.HTTP_409_CONFLICT)
    return result_page(person, run, receipt)


# Reading --------------------------------------------------------------------------------------------------------------


async def find_target(request: Request, token: str, pool: Pool) -> AnswerTarget | Response:
    """Return what a token answers, or the page that explains why it answers nothing."""
    async with pool.statement() as connection:
        keys = await list_link_keys(connection)
    link = verify_link(keys, token)
    person = await find_person(pool, link.uid) if link else None
    if link is None or person is None:
        return error_page("unknown", status.HTTP_404_NOT_FOUND)
    request.state.rate_limiter.acquire(f"answer:{link.uid}")
    if link.is_expired(await get_current_time(pool)):
        return error_page("expired", status.HTTP_410_GONE, person.language)
    try:
        return AnswerTarget(link, person, await service.get_run(pool, person.schedule_owner_id, link.run_id))
    except NotFound:
        return error_page("unknown", status.HTTP_404_NOT_FOUND, person.language)


async def find_receipt(pool: Pool, person: Person, run: Run, key: str) -> Receipt | None:
    """Return the receipt of an earlier answer by the same link."""
    receipts = await service.list_receipts(pool, person.schedule_owner_id, run.id)
    return next((each for each in receipts if each.idempotency_key == key), None)


def is_still_in_effect(receipt: Receipt, run: Run) -> bool:
    """Is the effect of an answer still there? That of a snooze ends when its run is closed."""
    return receipt.action is not Action.SNOOZE or run.status.is_open


async def find_expense_to_book(pool: Pool, person: Person, run: Run, link: LinkClaims) -> Mapping[str, Any] | None:
    """Return the expense that the answer would book."""
    if link.action != Action.COMPLETE:
        return None
    return (await service.get_schedule(pool, person.schedule_owner_id, run.schedule_id)).expense


# Pages ----------------------------------------------------------------------------------------------------------------


async def closed_page(pool: Pool, person: Person, run: Run, code: int) -> Response:
    """Return the page of a run that accepts no more answers, with the answer that closed it, if one did."""
    receipts = await service.list_receipts(pool, person.schedule_owner_id, run.id)
    return answered_page(person, run, find_closing_receipt(receipts), code)


def answered_page(person: Person, run: Run, first: Receipt | None, code: int) -> Response:
    """Return the page of a run that was answered before, or closed without an answer."""
    if first is None:
        return page(person, run, translate(person.language, "page.closed"), code=code)
    details = [result_text(person, first), *receipt_details(person, first)]
    return page(person, run, translate(person.language, "page.already_answered"), details=details, code=code)


def result_page(person: Person, run: Run, receipt: Receipt) -> Response:
    """Return the page of the answer that this link gave."""
    return page(person, run, result_text(person, receipt), details=receipt_details(person, receipt))


def result_text(person: Person, receipt: Receipt) -> str:
    """Return what an answer did, in one sentence."""
    return translate(person.language, f"page.result.{receipt.action}")


def receipt_details(person: Person, receipt: Receipt) -> list[str]:
    """Return the other lines of a receipt: when, what was booked, and the next reminder."""
    lines = [time_line(person, "page.answered_at", receipt.confirmed_at)]
    if receipt.expense:
        lines.append(translate(person.language, "page.booked", **receipt.expense))
    if receipt.remind_at:
        lines.append(time_line(person, "page.next_reminder_at", receipt.remind_at))
    return lines


def time_line(person: Person, key: str, instant: datetime) -> str:
    """Return a text with a time in the person's zone."""
    at = instant.astimezone(ZoneInfo(person.zone)).strftime("%Y-%m-%d %H:%M")
    return translate(person.language, key, at=at, zone=person.zone)


def page(
    person: Person, run: Run, text: str, *, details: Sequence[str] = (), button: str | None = None, code: int = 200
) -> Response:
    """Return a page about a run."""
    lines = [time_line(person, "reminder.due", run.scheduled_at)]
    return render(
        code, language=person.language, title=run.name, lines=lines, text=text, details=details, button=button
    )


def error_page(error: str, code: int, language: str = DEFAULT_LANGUAGE) -> Response:
    """Return a page about a link that is not valid."""
    title, text = translate(language, f"page.{error}.title"), translate(language, f"page.{error}.text")
    return render(code, language=language, title=title, lines=(), text=text, details=(), button=None)


def render(code: int, **values: Any) -> Response:
    """Render the page; texts that people wrote are escaped."""
    return HTMLResponse(template().render(style=style(), **values), status_code=code, headers=HEADERS)


@cache
def template() -> Any:
    """Return the template of the page, loaded once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("duly.apps.scheduler.http", "pages")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template("answer.html")


@cache
def style() -> Any:
    """Return our style sheet, the only text that is not escaped; the headers contain its hash."""
    from markupsafe import Markup

    return Markup(STYLE)  # noqa: S704
