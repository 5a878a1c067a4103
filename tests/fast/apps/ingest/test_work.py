"""What a session writes: everything in one transaction, or nothing."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from duly.apps.ingest import day as day_module
from duly.apps.ingest.canonical import canonicalize
from duly.apps.ingest.reading import FixtureReader, NoiseReader
from tests.fast.apps.ingest.test_canonical_forms import DAYS
from tests.support.golden import GOLDEN
from tests.support.ingest.actions import ANNA, LEASE, SAMPLE, CaptureActions
from tests.support.ingest.seen_days import Seen, change_day, payload_from_lines
from tests.support.ingest.strategies import payload

ENTRY: dict[str, Any] = {
    "start": "10:00",
    "end": "14:00",
    "title": "Anna Svensson • Städning",
    "address": "Storgatan 1, 412 58 Göteborg",
}
LATER = {**ENTRY, "start": "11:00"}
A, B = payload(ENTRY), payload(LATER)


async def test_first_capture_writes_version_event_notification_and_snapshot(captures: CaptureActions) -> None:
    (result,) = await captures.capture(A)
    assert result == {
        "outcome": "changed",
        "input": "given",
        "schedule_date": "2026-02-10",
        "version": 1,
        "events": 1,
        "notifications": 1,
    }
    assert captures.counts() == {
        "schedule_version": 1,
        "schedule_event": 1,
        "schedule_notification": 1,
        "day_snapshot": 1,
        "day_schedule": 1,
    }
    row = captures.rows("select state::text, locked_at, locked_by, error from schedule_ingest.capture_session")
    assert row == [("done", None, None, None)]
    assert captures.values("select message from schedule_ingest.schedule_notification") == [
        "New shift on 2026-02-10: 10:00\N{EN DASH}14:00, Anna Svensson • Städning, Storgatan 1, 412 58 Göteborg."
    ]
    captures.verify()


async def test_unchanged_capture_writes_only_its_session(captures: CaptureActions) -> None:
    await captures.capture(A)
    before = captures.one("select updated_at from schedule_ingest.day_snapshot")
    (result,) = await captures.capture(payload({**ENTRY, "title": "ANNA  SVENSSON • städning"}))
    assert result is not None
    assert (result["outcome"], result["version"], result["events"]) == ("unchanged", 1, 0)
    assert captures.counts() == dict.fromkeys(captures.counts(), 1)
    latest = "select id from schedule_ingest.capture_session order by created_at desc limit 1"
    assert captures.one("select source_session_id from schedule_ingest.day_snapshot") == captures.one(latest)
    assert captures.one("select updated_at from schedule_ingest.day_snapshot") > before
    captures.verify()


async def test_alternating_captures_record_every_change(captures: CaptureActions) -> None:
    results = await captures.capture(A, B, A, B)
    assert [result["version"] for result in results if result] == [1, 2, 3, 4]
    assert captures.count("schedule_ingest.schedule_event") == 4
    assert captures.count("schedule_ingest.schedule_notification") == 4
    rebuilt, known = captures.rebuilt()
    assert rebuilt == known
    captures.verify()


async def test_unknown_payload_key_creates_a_version_but_no_event(captures: CaptureActions) -> None:
    results = await captures.capture(A, {**A, "weather": "rain"})
    assert [(result["version"], result["events"]) for result in results if result] == [(1, 1), (2, 0)]
    assert captures.count("schedule_ingest.schedule_notification") == 1


async def test_sessions_of_one_day_in_one_batch_are_applied_in_order(captures: CaptureActions) -> None:
    keys = await captures.create(A, B, A, A)
    assert await captures.finish(await captures.claim(limit=10)) == frozenset(keys)
    results = captures.values("select result from schedule_ingest.capture_session order by created_at, id")
    assert [(each["outcome"], each["version"]) for each in results] == [
        ("changed", 1),
        ("changed", 2),
        ("changed", 3),
        ("unchanged", 3),
    ]
    assert captures.rebuilt()[0] == captures.rebuilt()[1]
    captures.verify()


async def test_days_of_different_users_in_one_batch_are_independent(captures: CaptureActions) -> None:
    for user in range(5):
        for date in ("2026-02-10", "2026-02-11"):
            await captures.create(payload(ENTRY, date=date), payload(LATER, date=date), user=user)
    assert len(await captures.finish(await captures.claim(limit=100))) == 20
    assert captures.values("select current_version from schedule_ingest.day_schedule") == [2] * 10
    captures.verify()


async def test_noisy_captures_create_one_version(captures: CaptureActions) -> None:
    work = captures.work(NoiseReader(FixtureReader(SAMPLE), seed=3))
    for _ in range(10):
        await captures.open()
    await captures.finish(await captures.claim(work, limit=10), work)
    assert captures.count("schedule_ingest.schedule_version") == 1
    assert captures.values("select distinct result ->> 'input' from schedule_ingest.capture_session") == ["fixture"]


# Failing --------------------------------------------------------------------------------------------------------------


async def test_a_session_that_cannot_be_read_fails_with_a_text_and_affects_no_other(
    captures: CaptureActions, tmp_path: Path
) -> None:
    path = tmp_path / "day.json"
    path.write_text('{"schedule_date": "2026-02-10", "entries": [{"start": "late", "end": "14:00", "title": "x"}]}')
    work = captures.work(FixtureReader(path))
    bad = await captures.open()
    (good,) = await captures.create(A)
    assert await captures.finish(await captures.claim(work, limit=2), work) == {bad, good}
    assert captures.rows(
        "select id, state::text, error, result from schedule_ingest.capture_session where id = %s", bad
    ) == [(bad, "failed", "entries[0].start: must be a time such as 10:00, not 'late'", None)]
    assert captures.path(bad) == ["pending", "processing", "failed"]
    assert captures.path(good)[-1] == "done"
    assert captures.count("schedule_ingest.schedule_version") == 1
    captures.verify()


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("{", "is not JSON"),
        ("[]", "must hold an object with schedule_date and entries"),
        ("[" * 100_000, "is not JSON"),
    ],
)
async def test_invalid_fixture_fails_the_session_with_its_file_name(
    captures: CaptureActions, tmp_path: Path, text: str, expected_text: str
) -> None:
    path = tmp_path / "day.json"
    path.write_text(text)
    work = captures.work(FixtureReader(path))
    await captures.open()
    await captures.finish(await captures.claim(work), work)
    error = captures.one("select error from schedule_ingest.capture_session")
    assert error.startswith("day.json: ")
    assert expected_text in error


# Fencing --------------------------------------------------------------------------------------------------------------


async def test_a_worker_that_lost_its_lease_writes_nothing(captures: CaptureActions) -> None:
    await captures.create(A)
    stale = await captures.claim()
    captures.advance_clock(LEASE + 1)
    (claimed,) = await captures.work().claim_expired(captures.worker, "worker-1", 1)
    assert await captures.finish(stale) == frozenset()
    assert captures.counts() == dict.fromkeys(captures.counts(), 0)
    assert await captures.finish([claimed]) == {claimed.key}
    assert captures.counts() == dict.fromkeys(captures.counts(), 1)


async def test_session_with_a_lost_lease_does_not_affect_others_of_its_day(captures: CaptureActions) -> None:
    await captures.create(A)
    stale = await captures.claim()
    captures.advance_clock(LEASE + 1)
    (claimed,) = await captures.work().claim_expired(captures.worker, "worker-1", 1)
    await captures.create(B)
    mine = await captures.claim()
    assert await captures.finish([*stale, *mine]) == {mine[0].key}
    assert await captures.finish([claimed]) == {claimed.key}
    assert captures.values("select version from schedule_ingest.schedule_version order by version") == [1, 2]
    assert captures.rebuilt()[0] == captures.rebuilt()[1]


async def test_settle_repeated_after_a_lost_reply_succeeds_and_writes_nothing(captures: CaptureActions) -> None:
    await captures.create(A)
    leases = await captures.claim()
    assert await captures.finish(leases) == {leases[0].key}
    before = captures.counts()
    assert await captures.finish(leases) == {leases[0].key}
    assert captures.counts() == before


async def test_lease_without_lease_seconds_expires_after_the_workers_default(captures: CaptureActions) -> None:
    key = await captures.open()
    update = "update schedule_ingest.capture_session set state = 'processing', locked_by = 'psql', locked_at = {}"
    captures.admin.execute(update.format("duly.clock() - interval '59 s'").encode())
    assert await captures.work().claim_expired(captures.worker, "worker-1", 1) == []
    captures.advance_clock(2)
    (lease,) = await captures.work().claim_expired(captures.worker, "worker-1", 1)
    assert lease.key == key


async def test_session_over_the_maximum_of_starts_fails_with_that_error(captures: CaptureActions) -> None:
    await captures.create(A)
    work = captures.work()
    await captures.claim(work)
    for _ in range(work.tuning.max_starts - 1):
        captures.advance_clock(LEASE + 1)
        assert len(await work.claim_expired(captures.worker, "worker-1", 1)) == 1
    captures.advance_clock(LEASE + 1)
    assert await work.claim_expired(captures.worker, "worker-1", 1) == []
    assert await work.sweep(captures.worker) == 1
    ((state, error),) = captures.rows("select state::text, error from schedule_ingest.capture_session")
    assert state == "failed"
    assert error.startswith("It was started too often")


# Canonicalisers -------------------------------------------------------------------------------------------------------


async def test_a_new_canonicalizer_does_not_count_as_a_changed_day(
    captures: CaptureActions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if an older canonicaliser had left blanks in names: the stored day is read again with ours."""
    await captures.capture(A)
    admin = captures.admin
    admin.execute("set session_replication_role = replica")
    admin.execute(
        "update schedule_ingest.schedule_version set canonicalizer = 0, payload_hash = 'old',"
        " payload = replace(payload::text, 'Anna Svensson', 'Anna   Svensson')::jsonb"
    )
    admin.execute("update schedule_ingest.day_snapshot set canonicalizer = 0")
    admin.execute("reset session_replication_role")
    (same, other) = await captures.capture(A, B)
    assert same is not None
    assert other is not None
    assert (same["outcome"], same["events"]) == ("unchanged", 0)
    assert (other["outcome"], other["version"], other["events"]) == ("changed", 2, 1)
    assert captures.one("select canonicalizer from schedule_ingest.day_snapshot") == day_module.CANONICALIZER


def store_as_the_first_canonicaliser(captures: CaptureActions, day: dict[str, Any], *forms: dict[str, Any]) -> None:
    """Give the only day of the database, and its events, the shifts that the first canonicaliser made of it."""
    admin, seen = captures.admin, canonicalize(day)
    admin.execute("set session_replication_role = replica")
    admin.execute(
        "update schedule_ingest.schedule_version set canonicalizer = 1, payload = %s, payload_hash = %s",
        [Jsonb(seen.payload), seen.payload_hash],
    )
    admin.execute("update schedule_ingest.day_snapshot set canonicalizer = 1, snapshot_payload = %s", [Jsonb(forms)])
    for seq, form in enumerate(forms, 1):
        admin.execute("update schedule_ingest.schedule_event set new_value = %s where seq = %s", [Jsonb(form), seq])
    admin.execute("reset session_replication_role")


def notification_texts(captures: CaptureActions) -> list[str]:
    """The messages about the only day, in order."""
    return captures.values("select message from schedule_ingest.schedule_notification order by created_at")


FIRST_FORMS = json.loads((GOLDEN / "canonical" / "1.json").read_text())


async def test_day_of_the_first_canonicalizer_is_migrated_without_an_event(captures: CaptureActions) -> None:
    """Its shifts have no titles: each stays as it is until it changes."""
    day, forms = DAYS[2], FIRST_FORMS[2]["shifts"]
    await captures.capture(day)
    store_as_the_first_canonicaliser(captures, day, *forms)
    (same,) = await captures.capture(day)
    assert same is not None
    assert (same["outcome"], same["events"], notification_texts(captures)) == (
        "unchanged",
        0,
        ["3 changes on 2026-02-11."],
    )
    assert captures.one("select snapshot_payload from schedule_ingest.day_snapshot") == forms

    night, morning, lunch = day["entries"]
    later = {**day, "entries": [night, {**morning, "end": "11:30"}, lunch]}
    both = {**later, "entries": [night, {**morning, "end": "11:30"}, {**lunch, "title": "Möte"}]}
    changed, again, more = await captures.capture(later, later, both)
    assert changed is not None
    assert again is not None
    assert more is not None
    assert [(each["version"], each["events"]) for each in (changed, again, more)] == [(2, 1), (2, 0), (3, 1)]
    old, new = captures.rows("select old_value, new_value from schedule_ingest.schedule_event where seq = 4")[0]
    assert (old, new["title"]) == (forms[0], "Anna Svensson Ab • Städning 2h 30m")
    assert notification_texts(captures)[1:] == [
        "The 09:05 shift on 2026-02-11 now ends at 11:30.",
        "The 12:00 shift on 2026-02-11 is now “Möte”.",
    ]
    rebuilt, known = captures.rebuilt()
    assert rebuilt == known
    captures.verify()


async def test_shifts_that_the_first_canonicalizer_merged_are_notified_when_one_is_removed(
    captures: CaptureActions,
) -> None:
    hours = {"start": "10:00", "end": "14:00"}
    anna, bo = ({**hours, "title": f"Städning hos {name}"} for name in ("Anna", "Bo"))
    await captures.capture(payload(anna))
    form = {"customer_name": "", "raw_type_label": "Städning", "shift_type": "WORK", "customer_fingerprint": "städning"}
    document = captures.one("select snapshot_payload -> 0 from schedule_ingest.day_snapshot")
    del document["title"]
    store_as_the_first_canonicaliser(captures, payload(anna, bo), document | form)
    lunch = {"start": "12:00", "end": "13:00", "title": "Lunch"}
    await captures.capture(payload(anna, bo), payload(anna, bo, lunch), payload(anna, lunch))
    assert notification_texts(captures)[1:] == [
        "New shift on 2026-02-10: 12:00\N{EN DASH}13:00, Lunch.",
        "Shift removed on 2026-02-10: 10:00\N{EN DASH}14:00, Städning Hos Bo.",
    ]
    rebuilt, known = captures.rebuilt()
    assert rebuilt == known
    captures.verify()


# Notifications --------------------------------------------------------------------------------------------------------


async def test_notification_is_in_the_language_of_its_user(captures: CaptureActions) -> None:
    captures.add_user("anna", telegram_id=ANNA, language="sv")
    work = captures.work()
    await work.prepare(captures.worker)
    for day in (A, B):
        await captures.create(day)
        await captures.finish(await captures.claim(work), work)
    assert notification_texts(captures) == [
        "Nytt pass den 2026-02-10: 10:00\N{EN DASH}14:00, Anna Svensson • Städning, Storgatan 1, 412 58 Göteborg.",
        "Passet 10:00 den 2026-02-10 börjar nu 11:00.",
    ]


async def test_every_change_of_a_day_creates_an_event_in_any_spelling(captures: CaptureActions) -> None:
    """Random days, each spelled as another camera would: `duly verify` checks the same in the database afterwards."""
    chance, known = Random(4), list[Seen]()  # noqa: S311 (a day, not a secret)
    for _ in range(25):
        seen = change_day(chance, known)
        (result,) = await captures.capture(payload_from_lines(seen, chance))
        assert result is not None
        assert bool(result["events"]) == (seen != known)
        known = seen
    rebuilt, snapshot = captures.rebuilt()
    assert rebuilt == snapshot
    captures.verify()


# Being ready ----------------------------------------------------------------------------------------------------------


async def test_worker_closes_a_session_only_after_its_last_image_is_idle(captures: CaptureActions) -> None:
    work = captures.work(due="closed_at", idle_seconds=25)
    key = await captures.open()
    empty = await captures.open()
    add = "insert into schedule_ingest.capture_image (session_id, sequence, r2_key) values (%s, %s, %s)"
    captures.admin.execute(add.encode(), [key, 1, "one"])
    captures.advance_clock(20)
    captures.admin.execute(add.encode(), [key, 2, "two"])
    captures.advance_clock(20)
    assert await captures.claim(work) == []
    captures.advance_clock(6)
    work.idle_check_at = 0
    (lease,) = await captures.claim(work)
    assert lease.key == key
    assert captures.path(empty) == ["pending"]
    assert captures.path(key) == ["pending", "pending", "processing"]


async def test_closed_session_is_claimed_at_once_even_without_an_image(captures: CaptureActions) -> None:
    work = captures.work(due="closed_at")
    key = await captures.open()
    assert await captures.claim(work) == []
    captures.admin.execute("update schedule_ingest.capture_session set closed_at = duly.clock()")
    (lease,) = await captures.claim(work)
    assert lease.key == key


async def test_a_worker_without_ocr_claims_only_sessions_given_as_data(captures: CaptureActions) -> None:
    work = captures.work(due="given_at")
    await captures.open()
    (given_key,) = await captures.create(A)
    assert [lease.key for lease in await captures.claim(work, limit=5)] == [given_key]


async def test_messages_of_a_session_are_in_chronological_order(captures: CaptureActions) -> None:
    work = captures.work(summary_threshold=100)
    entries = [{**ENTRY, "start": f"{hour:02}:00", "end": f"{hour:02}:30"} for hour in range(8, 16)]
    await captures.create(payload(*reversed(entries)))
    await captures.finish(await captures.claim(work), work)
    messages = captures.values(
        "select message from schedule_ingest.schedule_notification order by created_at, notification_id"
    )
    assert [message[25:30] for message in messages] == [entry["start"] for entry in entries]


async def test_many_changes_are_summarized_in_one_message(captures: CaptureActions) -> None:
    await captures.capture(payload(*({**ENTRY, "start": f"{hour:02}:00"} for hour in range(8, 12))))
    assert captures.rows(
        "select notification_type, message, jsonb_array_length(event_ids) from schedule_ingest.schedule_notification"
    ) == [("summary", "4 changes on 2026-02-10.", 4)]
    assert captures.one("select user_id from schedule_ingest.schedule_notification") == ANNA
