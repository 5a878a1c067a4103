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
    """A person with a run that a reminder was sent for, and its links."""

    def __init__(self, env: ApiEnvironment, language: str = "en", name: str = "Rent <b>&") -> None:
        self.env = env

        async def make(schedules: ScheduleActions) -> Schedule:
            schedules.add_user("anna", language=language, zone="Europe/Stockholm")
            return await schedules.create_with_expense(rule=DAILY, name=name, channel="apprise")

        env.ask(make)
        env.turn(3600)
        self.client = env.nobody()

    def one(self, asked: str) -> Any:
        """Fetch one value."""
        row = self.env.admin.execute(asked.encode()).fetchone()
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
        asked = "select (select count(*) from scheduler.confirmations), (select count(*) from expense.expenses)"
        row = self.env.admin.execute(asked).fetchone()
        assert row
        return row[0], row[1]


@pytest.fixture
def env(database: str) -> Generator[ApiEnvironment, None, None]:
    """Return an environment for this test."""
    with opened(database) as env:
        yield env


@pytest.mark.parametrize("language", LANGUAGES)
def test_looking_changes_nothing_and_the_button_answers_once(language: str, env: ApiEnvironment) -> None:
    anna = Reminded(env, language)
    deed, did = LANGUAGES[language]
    path = anna.paths()[deed]
    for _ in range(3):  # a program that opens every link of a mail
        page = anna.client.get(path)
        assert page.status_code == 200
        assert f'<html lang="{language}">' in page.text
        assert f'<button type="submit">{deed}</button>' in page.text
        assert "2026-11-16 13:30 (Europe/Stockholm)" in page.text
        assert "9.99 EUR" in page.text
    assert anna.counts() == (0, 0)
    done = anna.client.post(path)
    assert (done.status_code, anna.status) == (200, "confirmed")
    assert did in done.text
    assert "<form" not in done.text
    again, later = anna.client.post(path), anna.client.get(path)
    assert (again.text, later.text) == (done.text, done.text)  # the first receipt, word for word
    assert anna.counts() == (1, 1)


def test_a_run_that_is_closed_takes_no_answer(env: ApiEnvironment) -> None:
    anna = Reminded(env)
    paths = anna.paths()
    env.admin.execute("update scheduler.jobs set status = 'archived'")
    for answer, status in ((anna.client.get(paths["Done"]), 200), (anna.client.post(paths["Done"]), 409)):
        assert answer.status_code == status
        assert "This one is closed" in answer.text
    assert anna.counts() == (0, 0)


@pytest.mark.parametrize("way", ["get", "post"])
def test_every_page_keeps_to_itself(way: str, env: ApiEnvironment) -> None:
    anna = Reminded(env)
    for path in (anna.paths()["Done"], "/c/nothing"):
        headers = anna.client.request(way.upper(), path).headers
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


def test_a_link_that_was_changed_or_made_up_opens_nothing(env: ApiEnvironment) -> None:
    anna = Reminded(env)
    path = anna.paths()["Done"]
    token = path.removeprefix("/c/")
    said, _, signature = token.rpartition(".")
    other = LinkClaims("anna", anna.run, "complete", "mine", int((NOON + timedelta(days=9)).timestamp()))
    forged = [
        f"{said}.{'B' if signature[0] == 'A' else 'A'}{signature[1:]}",  # two bits of the last character mean nothing
        f"{said[:-2]}AA.{signature}",
        said,
        sign_link([b"another key entirely, of 32 bytes"], other),
        "x" * 5000,
        "%00",
        "..%2f..%2fetc",
    ]
    for each in forged:
        for answer in (anna.client.get(f"/c/{each}"), anna.client.post(f"/c/{each}")):
            assert answer.status_code == 404, each
    assert anna.counts() == (0, 0)


def test_keys_change_under_way_and_old_links_end_when_it_is_said(env: ApiEnvironment) -> None:
    anna = Reminded(env)
    old = anna.paths()["Done"]
    assert as_owner(env.database, lambda pool: service.rotate_links(pool, at_once=False)) == 0
    new = anna.paths()["Done"]
    assert old != new
    assert {anna.client.get(old).status_code, anna.client.get(new).status_code} == {200}
    assert as_owner(env.database, lambda pool: service.rotate_links(pool, at_once=True)) == 2
    assert {anna.client.get(old).status_code, anna.client.get(new).status_code} == {404}
    assert anna.client.get(anna.paths()["Done"]).status_code == 200


def test_a_link_is_the_same_at_every_try() -> None:
    keys = [b"x" * 32]
    link = LinkClaims("anna", 7, "snooze", "7:1:snooze:60", 1_800_000_000, {"minutes": 60})
    assert sign_link(keys, link) == sign_link(keys, link)
    assert verify_link(keys, sign_link(keys, link)) == link


def test_nobody_but_senders_and_the_api_reads_what_signs(database: str) -> None:
    for role, may in ((Names().worker, True), (Names().api, True), (Names().readonly, False)):
        with psycopg.connect(make_conninfo(database, user=role)) as connection:
            if may:
                assert connection.execute("select octet_length(secret) from duly.link_keys").fetchone() == (32,)
            else:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute("select secret from duly.link_keys")


def test_whoever_comes_second_sees_the_first_answer(env: ApiEnvironment) -> None:
    anna = Reminded(env)
    paths = anna.paths()
    assert anna.client.post(paths["Skip"]).status_code == 200
    for answer, status in ((anna.client.post(paths["Done"]), 409), (anna.client.get(paths["Done"]), 200)):
        assert answer.status_code == status
        assert "This was answered before" in answer.text
        assert "It is skipped this time." in answer.text
        assert "<form" not in answer.text
    assert (anna.status, anna.counts()) == ("skipped", (1, 0))


def test_later_means_later_and_the_next_reminder_has_links_of_its_own(env: ApiEnvironment) -> None:
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


def test_a_run_that_is_closed_after_a_snooze_promises_no_reminder(env: ApiEnvironment) -> None:
    anna = Reminded(env)
    paths = anna.paths()
    assert anna.client.post(paths["In 1 hour"]).status_code == 200
    env.admin.execute("update scheduler.jobs set status = 'archived'")
    for path in (paths["Done"], paths["In 1 hour"]):
        for answer, status in ((anna.client.get(path), 200), (anna.client.post(path), 409)):
            assert answer.status_code == status
            assert "This one is closed" in answer.text
            assert "Next reminder" not in answer.text


def test_the_link_of_a_snooze_tells_the_answer_that_came_after_it(env: ApiEnvironment) -> None:
    anna = Reminded(env)
    paths = anna.paths()
    for label in ("In 1 hour", "Done"):
        assert anna.client.post(paths[label]).status_code == 200
    for answer, status in ((anna.client.get(paths["In 1 hour"]), 200), (anna.client.post(paths["In 1 hour"]), 409)):
        assert answer.status_code == status
        assert "It is done." in answer.text
        assert "Next reminder" not in answer.text


def test_what_a_person_wrote_is_shown_and_never_run(env: ApiEnvironment) -> None:
    anna = Reminded(env, name="<script>alert(1)</script>")
    page = anna.client.get(anna.paths()["Done"])
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
    assert "<script" not in page.text


def test_a_link_is_one_persons_and_one_runs(env: ApiEnvironment) -> None:
    anna = Reminded(env)
    key_for_bo = LinkClaims("bo", anna.run, "complete", "k", int((NOON + timedelta(days=9)).timestamp()))
    env.ask(lambda schedules: schedules.create(uid="bo"))
    nobody = LinkClaims("cy", anna.run, "complete", "k", key_for_bo.expires_at)
    for link in (key_for_bo, nobody):
        token = sign_link(anna.keys(), link)
        assert anna.client.get(f"/c/{token}").status_code == 404
        assert anna.client.post(f"/c/{token}").status_code == 404
    assert anna.counts() == (0, 0)


def test_a_link_ends_after_two_weeks(env: ApiEnvironment) -> None:
    anna = Reminded(env, "sv")
    path = anna.paths()["Klart"]
    env.turn(LINK_TTL_SECONDS - 60)
    assert anna.client.get(path).status_code == 200
    env.turn(120)
    for answer in (anna.client.get(path), anna.client.post(path)):
        assert answer.status_code == 410
        assert "Länken gäller inte längre" in answer.text
    assert anna.counts() == (0, 0)
