"""The answer page behind a link: opening it changes nothing, its button answers once, and no link can be forged."""

import asyncio
from collections.abc import Generator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.accounts import service
from duly.accounts.signed_links import LinkClaims, list_link_keys, sign_link, verify_link
from duly.apps.scheduler.model import Schedule
from duly.db.migrations import Names
from duly.db.pool import open_pool
from duly.outbox.answer_links import LINK_TTL_SECONDS, AnswerLinks
from tests.fast.http.test_scheduler import NOON, ApiEnvironment, opened
from tests.support.api import as_owner
from tests.support.scheduler.actions import ScheduleActions

DAILY = "cron: 30 13 * * *"  # of a clock that is an hour ahead
LANGUAGES = {"en": ("Done", "It is done."), "sv": ("Klart", "Det är klart."), "zh": ("完成", "已完成。")}


class Reminded:
    """A person with a run that a reminder was sent for, or is being sent, and its links."""

    def __init__(
        self, env: ApiEnvironment, language: str = "en", name: str = "Rent <b>&", *, is_sent: bool = True
    ) -> None:
        self.env = env

        async def create_schedule(schedules: ScheduleActions) -> Schedule:
            schedules.add_user("anna", language=language, zone="Europe/Stockholm")
            return await schedules.create_with_expense(rule=DAILY, name=name, channel="apprise")

        env.ask(create_schedule)
        env.turn(3600, send=is_sent)
        self.client = env.anonymous()

    def one(self, query: str) -> Any:
        """Fetch one value."""
        row = self.env.admin.execute(query.encode()).fetchone()
        assert row
        return row[0]

    @property
    def run(self) -> int:
        """Return the run."""
        return self.one("select id from scheduler.job_runs order by id limit 1")

    @property
    def status(self) -> str:
        """Return its status."""
        return self.one("select status from scheduler.job_runs order by id limit 1")

    def keys(self) -> list[bytes]:
        """Return the signing key."""

        async def ask() -> list[bytes]:
            async with open_pool(self.env.database, size=1) as pool, pool.statement() as connection:
                return await list_link_keys(connection)

        return asyncio.run(ask())

    def paths(self) -> dict[str, str]:
        """Return the links of the reminder by their labels."""
        row = self.env.admin.execute(
            "select recipient, payload, created_at from duly.outbox where kind = 'reminder.due' order by seq limit 1"
        ).fetchone()
        assert row
        made = AnswerLinks("https://duly.example").create(self.keys(), *row)
        return {each.label: each.url.removeprefix("https://duly.example") for each in made}

    def counts(self) -> tuple[int, int]:
        """Count answers and expenses."""
        query = "select (select count(*) from scheduler.confirmations), (select count(*) from expense.expenses)"
        row = self.env.admin.execute(query).fetchone()
        assert row
        return row[0], row[1]


@pytest.fixture
def env(database: str) -> Generator[ApiEnvironment, None, None]:
    """Return an environment for this test."""
    with opened(database) as env:
        yield env


@pytest.mark.parametrize("language", LANGUAGES)
def test_get_of_an_answer_page_changes_nothing_and_post_answers_once(language: str, env: ApiEnvironment) -> None:
    anna = Reminded(env, language)
    button_label, confirmation = LANGUAGES[language]
    path = anna.paths()[button_label]
    for _ in range(3):  # a program that opens every link of a mail
        page = anna.client.get(path)
        assert page.status_code == 200
        assert f'<html lang="{language}">' in page.text
        assert f'<button type="submit">{button_label}</button>' in page.text
        assert "2026-11-16 13:30 (Europe/Stockholm)" in page.text
        assert "9.99 EUR" in page.text
    assert anna.counts() == (0, 0)
    done = anna.client.post(path)
    assert (done.status_code, anna.status) == (200, "confirmed")
    assert confirmation in done.text
    assert "<form" not in done.text
    again, later = anna.client.post(path), anna.client.get(path)
    assert (again.text, later.text) == (done.text, done.text)  # the first receipt, word for word
    assert anna.counts() == (1, 1)


def test_closed_run_accepts_no_answer(env: ApiEnvironment) -> None:
    anna = Reminded(env)
    paths = anna.paths()
    env.admin.execute("update scheduler.jobs set status = 'archived'")
    for answer, status in ((anna.client.get(paths["Done"]), 200), (anna.client.post(paths["Done"]), 409)):
        assert answer.status_code == status
        assert "This one is closed" in answer.text
    assert anna.counts() == (0, 0)


def test_run_whose_reminder_is_being_sent_can_be_confirmed_but_not_snoozed(env: ApiEnvironment) -> None:
    anna = Reminded(env, is_sent=False)
    paths = anna.paths()
    page = anna.client.post(paths["In 1 hour"])
    assert page.status_code == 409
    assert "It cannot be postponed yet" in page.text
    assert anna.counts() == (0, 0)
    assert anna.client.post(paths["Done"]).status_code == 200
    assert anna.status == "confirmed"


@pytest.mark.parametrize("method", ["get", "post"])
def test_every_answer_page_has_strict_security_headers(method: str, env: ApiEnvironment) -> None:
    anna = Reminded(env)
    for path in (anna.paths()["Done"], "/c/nothing"):
        headers = anna.client.request(method.upper(), path).headers
        assert headers["content-type"] == "text/html; charset=utf-8"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-robots-tag"] == "noindex, nofollow"
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "form-action 'self'" in policy
        assert "unsafe" not in policy


def test_modified_or_forged_link_is_not_found(env: ApiEnvironment) -> None:
    anna = Reminded(env)
    path = anna.paths()["Done"]
    token = path.removeprefix("/c/")
    claims, _, signature = token.rpartition(".")
    other = LinkClaims("anna", anna.run, "complete", "mine", int((NOON + timedelta(days=9)).timestamp()))
    forged = [
        f"{claims}.{'B' if signature[0] == 'A' else 'A'}{signature[1:]}",  # two bits of the last character mean nothing
        f"{claims[:-2]}AA.{signature}",
        claims,
        sign_link([b"another key entirely, of 32 bytes"], other),
        "x" * 5000,
        "%00",
        "..%2f..%2fetc",
    ]
    for each in forged:
        for answer in (anna.client.get(f"/c/{each}"), anna.client.post(f"/c/{each}")):
            assert answer.status_code == 404, each
    assert anna.counts() == (0, 0)


def test_old_links_work_after_key_rotation_unless_revoked_at_once(env: ApiEnvironment) -> None:
    anna = Reminded(env)
    old = anna.paths()["Done"]
    assert as_owner(env.database, lambda pool: service.rotate_links(pool, at_once=False)) == 0
    new = anna.paths()["Done"]
    assert old != new
    assert {anna.client.get(old).status_code, anna.client.get(new).status_code} == {200}
    assert as_owner(env.database, lambda pool: service.rotate_links(pool, at_once=True)) == 2
    assert {anna.client.get(old).status_code, anna.client.get(new).status_code} == {404}
    assert anna.client.get(anna.paths()["Done"]).status_code == 200


def test_sign_link_is_deterministic() -> None:
    keys = [b"x" * 32]
    link = LinkClaims("anna", 7, "snooze", "7:1:snooze:60", 1_800_000_000, {"minutes": 60})
    assert sign_link(keys, link) == sign_link(keys, link)
    assert verify_link(keys, sign_link(keys, link)) == link


def test_only_worker_and_api_roles_read_the_link_keys(database: str) -> None:
    for role, may in ((Names().worker, True), (Names().api, True), (Names().readonly, False)):
        with psycopg.connect(make_conninfo(database, user=role)) as connection:
            if may:
                assert connection.execute("select octet_length(secret) from duly.link_keys").fetchone() == (32,)
            else:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute("select secret from duly.link_keys")


def test_second_answer_is_refused_and_shows_the_first_answer(env: ApiEnvironment) -> None:
    anna = Reminded(env)
    paths = anna.paths()
    assert anna.client.post(paths["Skip"]).status_code == 200
    for answer, status in ((anna.client.post(paths["Done"]), 409), (anna.client.get(paths["Done"]), 200)):
        assert answer.status_code == status
        assert "This was answered before" in answer.text
        assert "It is skipped this time." in answer.text
        assert "<form" not in answer.text
    assert (anna.status, anna.counts()) == ("skipped", (1, 0))


def test_snooze_link_moves_the_reminder_which_gets_new_links(env: ApiEnvironment) -> None:
    anna = Reminded(env)
    paths = anna.paths()
    page = anna.client.get(paths["In 1 hour"])
    assert "Remind you again in 60 minutes?" in page.text
    done = anna.client.post(paths["In 1 hour"])
    assert "Next reminder 2026-11-16 15:00 (Europe/Stockholm)" in done.text
    assert anna.status == "snoozed"
    assert anna.client.get(paths["In 1 hour"]).text == done.text
    env.turn(3700)
    assert "<form" in anna.client.get(paths["Done"]).text  # the old message still answers
    assert anna.client.post(paths["Done"]).status_code == 200
    assert anna.status == "confirmed"


def test_page_of_a_run_closed_after_a_snooze_shows_no_next_reminder(env: ApiEnvironment) -> None:
    anna = Reminded(env)
    paths = anna.paths()
    assert anna.client.post(paths["In 1 hour"]).status_code == 200
    env.admin.execute("update scheduler.jobs set status = 'archived'")
    for path in (paths["Done"], paths["In 1 hour"]):
        for answer, status in ((anna.client.get(path), 200), (anna.client.post(path), 409)):
            assert answer.status_code == status
            assert "This one is closed" in answer.text
            assert "Next reminder" not in answer.text


def test_snooze_link_shows_the_answer_given_after_the_snooze(env: ApiEnvironment) -> None:
    anna = Reminded(env)
    paths = anna.paths()
    for label in ("In 1 hour", "Done"):
        assert anna.client.post(paths[label]).status_code == 200
    for answer, status in ((anna.client.get(paths["In 1 hour"]), 200), (anna.client.post(paths["In 1 hour"]), 409)):
        assert answer.status_code == status
        assert "It is done." in answer.text
        assert "Next reminder" not in answer.text


def test_answer_page_escapes_html_in_user_text(env: ApiEnvironment) -> None:
    anna = Reminded(env, name="<script>alert(1)</script>")
    page = anna.client.get(anna.paths()["Done"])
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
    assert "<script" not in page.text


def test_link_is_valid_only_for_its_user_and_run(env: ApiEnvironment) -> None:
    anna = Reminded(env)
    key_for_bo = LinkClaims("bo", anna.run, "complete", "k", int((NOON + timedelta(days=9)).timestamp()))
    env.ask(lambda schedules: schedules.create(uid="bo"))
    anonymous = LinkClaims("cy", anna.run, "complete", "k", key_for_bo.expires_at)
    for link in (key_for_bo, anonymous):
        token = sign_link(anna.keys(), link)
        assert anna.client.get(f"/c/{token}").status_code == 404
        assert anna.client.post(f"/c/{token}").status_code == 404
    assert anna.counts() == (0, 0)


def test_link_expires_after_two_weeks(env: ApiEnvironment) -> None:
    anna = Reminded(env, "sv")
    path = anna.paths()["Klart"]
    env.turn(LINK_TTL_SECONDS - 60)
    assert anna.client.get(path).status_code == 200
    env.turn(120)
    for answer in (anna.client.get(path), anna.client.post(path)):
        assert answer.status_code == 410
        assert "Länken gäller inte längre" in answer.text
    assert anna.counts() == (0, 0)
