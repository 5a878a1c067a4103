"""The scheduler over HTTP: schedules, runs, answers, expenses, the calendar feed, and every error."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from icalendar import Calendar

from duly.apps.ingest.day_history import DayHistory
from duly.apps.ingest.model import DaySnapshot
from duly.apps.scheduler.calendar import MAX_EVENTS, MAX_PAST_EVENTS, Appointment, upcoming_firings
from duly.apps.scheduler.http.calendar import render_feed
from duly.apps.scheduler.model import RunStatus
from duly.testing import move_clock
from tests.fast.http.test_scheduler import (
    NOON,
    NOWHERE,
    SCHEDULES,
    SHIFTS,
    ApiEnvironment,
    anna,
    created,
    database,
    env,
    events_of,
    feed,
    know_days,
    ok_body,
    plan_of,
    problem,
    run_of,
    schedule,
    subscribed,
)
from tests.support.api import request_until_rate_limited

__all__ = ["anna", "database", "env"]


# Runs -----------------------------------------------------------------------------------------------------------------


# Who may --------------------------------------------------------------------------------------------------------------


def test_schedule_requests_of_one_user_are_rate_limited(anna: httpx2.Client) -> None:
    answers = request_until_rate_limited(lambda: anna.post(f"{SCHEDULES}/{NOWHERE}/pause"))
    assert {answer.status_code for answer in answers} == {404, 429}
    problem(answers[-1], 429, "RATE_LIMITED")


def test_an_unchanged_calendar_has_the_same_bytes_and_answers_304_to_its_etag(
    env: ApiEnvironment, anna: httpx2.Client
) -> None:
    job = created(anna.post(SCHEDULES, json=schedule()))["id"]
    reader, url = subscribed(env, anna)
    first = reader.get(url)
    calendar: Any = Calendar.from_ical(first.content)
    assert (str(calendar["X-PUBLISHED-TTL"]), calendar["REFRESH-INTERVAL"].dt) == ("PT1H", timedelta(hours=1))
    assert b"REFRESH-INTERVAL;VALUE=DURATION:PT1H\r\n" in first.content
    assert first.headers["cache-control"] == "private, max-age=300"
    tag = first.headers["etag"]
    move_clock(env.admin, 60)
    assert reader.get(url).content == first.content
    for header in (tag, f'"other", W/{tag}', "*"):
        again = reader.get(url, headers={"If-None-Match": header})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert again.headers["cache-control"] == "private, max-age=300"
    assert reader.get(url, headers={"If-None-Match": '"other"'}).status_code == 200
    ok_body(anna.patch(f"{SCHEDULES}/{job}", json={"name": "Flat"}))
    changed = reader.get(url, headers={"If-None-Match": tag})
    assert {str(event["SUMMARY"]) for event in feed(changed).values()} == {"Flat"}


def test_calendar_requests_are_rate_limited(env: ApiEnvironment, anna: httpx2.Client) -> None:
    reader, url = subscribed(env, anna)
    answers = request_until_rate_limited(lambda: reader.get(url))
    assert {answer.status_code for answer in answers} == {200, 429}


def test_the_feed_lists_the_soonest_events_of_all_schedules_up_to_its_limit() -> None:
    often = [plan_of(nth, "cron: * * * * *") for nth in range(1, 40)]
    runs = [run_of(f"p{nth}", NOON - timedelta(minutes=nth), RunStatus.CONFIRMED, key=1) for nth in range(MAX_EVENTS)]
    events = events_of(render_feed([*often, plan_of(99, "cron: 5 12 * * *")], runs, [], NOON))
    assert len(events) == MAX_EVENTS
    assert sum(name.startswith("schedule-1-p") for name in events) == MAX_PAST_EVENTS
    assert "schedule-99-2026-11-16@duly" in events
    starts = [event["DTSTART"].dt for event in events.values()]
    assert starts == sorted(starts)


def test_the_feed_drops_the_events_farthest_from_now_when_it_is_over_its_limit() -> None:
    hours = [NOON + timedelta(hours=nth) for nth in range(-30 * 24, 90 * 24)]
    shifts = [Appointment(f"day-{at:%Y%m%d%H}@duly", at, at + timedelta(hours=1), "Anna", "", NOON) for at in hours]
    past = [run_of(f"p{nth}", NOON - timedelta(days=nth, minutes=1)) for nth in range(1, 29)]
    events = events_of(render_feed([plan_of(7)], past, shifts, NOON))
    assert len(events) == MAX_EVENTS
    distances = sorted(abs(event["DTSTART"].dt - NOON) for event in events.values())
    everything = [*hours, *(run.scheduled_at for run in past)]
    everything += [each.scheduled_at for each in upcoming_firings([plan_of(7)], past, NOON, MAX_EVENTS)]
    assert distances == sorted(abs(at - NOON) for at in everything)[:MAX_EVENTS]
    assert {name.split("-")[0] for name in events} == {"schedule", "day"}
    assert "schedule-7-2026-11-16@duly" in events


@pytest.mark.breaks_invariants
def test_the_calendar_does_not_read_days_beyond_its_event_limit(
    env: ApiEnvironment, anna: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, list_days = list[DaySnapshot](), DayHistory.list_days

    async def noted(*positional: Any, **more: Any) -> Sequence[DaySnapshot]:
        read.extend(found := await list_days(*positional, **more))
        return found

    monkeypatch.setattr(DayHistory, "list_days", noted)
    env.admin.execute("""update duly.person set telegram_id = 42 where uid = 'anna'""")
    shift = json.loads(SHIFTS)[0]
    shifts = [{**shift, "start": f"{nth % 24:02}:{nth // 24:02}", "end": "24:00"} for nth in range(200)]
    know_days(env, 42, json.dumps(shifts), *(NOON.date() + timedelta(days=nth) for nth in range(-40, 101)))
    reader, url = subscribed(env, anna)
    events = feed(reader.get(url))
    assert len(events) == MAX_EVENTS
    assert max(abs(event.start - NOON) for event in events.values()) <= timedelta(days=2, hours=12)
    assert len(read) <= 28
