"""What a session leaves behind: everything in one transaction, or nothing."""

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


async def test_a_first_capture_writes_everything(captures: CaptureActions) -> None:
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


async def test_an_unchanged_capture_writes_nothing_but_its_session(captures: CaptureActions) -> None:
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


async def test_a_day_that_goes_there_and_back_and_there_again_has_every_change(captures: CaptureActions) -> None:
    results = await captures.capture(A, B, A, B)
    assert [result["version"] for result in results if result] == [1, 2, 3, 4]
    assert captures.count("schedule_ingest.schedule_event") == 4
    assert captures.count("schedule_ingest.schedule_notification") == 4
    rebuilt, known = captures.rebuilt()
    assert rebuilt == known
    captures.verify()


async def test_a_key_that_we_do_not_know_makes_a_version_and_no_event(captures: CaptureActions) -> None:
    results = await captures.capture(A, {**A, "weather": "rain"})
    assert [(result["version"], result["events"]) for result in results if result] == [(1, 1), (2, 0)]
    assert captures.count("schedule_ingest.schedule_notification") == 1


async def test_sessions_of_one_day_in_one_batch_take_their_turns(captures: CaptureActions) -> None:
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


async def test_many_people_and_days_in_one_batch_do_not_meet(captures: CaptureActions) -> None:
    for user in range(5):
        for date in ("2026-02-10", "2026-02-11"):
            await captures.create(payload(ENTRY, date=date), payload(LATER, date=date), user=user)
    assert len(await captures.finish(await captures.claim(limit=100))) == 20
    assert captures.values("select current_version from schedule_ingest.day_schedule") == [2] * 10
    captures.verify()


async def test_noise_leaves_one_version(captures: CaptureActions) -> None:
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
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "must hold an object with schedule_date and entries"),
        ("[" * 100_000, "is not JSON"),
    ],
)
async def test_a_bad_file_fails_the_session_by_its_name(
    captures: CaptureActions, tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "day.json"
    path.write_text(text)
    work = captures.work(FixtureReader(path))
    await captures.open()
    await captures.finish(await captures.claim(work), work)
    error = captures.one("select error from schedule_ingest.capture_session")
    assert error.startswith("day.json: ")
    assert words in error


# Fencing --------------------------------------------------------------------------------------------------------------


async def test_a_worker_that_lost_its_lease_writes_nothing(captures: CaptureActions) -> None:
    await captures.create(A)
    stale = await captures.claim()
    captures.advance_clock(LEASE + 1)
    (taken,) = await captures.work().claim_expired(captures.worker, "worker-1", 1)
    assert await captures.finish(stale) == frozenset()
    assert captures.counts() == dict.fromkeys(captures.counts(), 0)
    assert await captures.finish([taken]) == {taken.key}
    assert captures.counts() == dict.fromkeys(captures.counts(), 1)


async def test_a_lost_session_does_not_shift_the_others_of_its_day(captures: CaptureActions) -> None:
    await captures.create(A)
    stale = await captures.claim()
    captures.advance_clock(LEASE + 1)
    (taken,) = await captures.work().claim_expired(captures.worker, "worker-1", 1)
    await captures.create(B)
    mine = await captures.claim()
    assert await captures.finish([*stale, *mine]) == {mine[0].key}
    assert await captures.finish([taken]) == {taken.key}
    assert captures.values("select version from schedule_ingest.schedule_version order by version") == [1, 2]
    assert captures.rebuilt()[0] == captures.rebuilt()[1]


async def test_settling_again_after_the_answer_was_lost_is_success_and_writes_nothing(captures: CaptureActions) -> None:
    await captures.create(A)
    leases = await captures.claim()
    assert await captures.finish(leases) == {leases[0].key}
    before = captures.counts()
    assert await captures.finish(leases) == {leases[0].key}
    assert captures.counts() == before


async def test_a_holder_that_wrote_no_length_has_the_workers_own(captures: CaptureActions) -> None:
    key = await captures.open()
    update = "update schedule_ingest.capture_session set state = 'processing', locked_by = 'psql', locked_at = {}"
    captures.admin.execute(update.format("duly.clock() - interval '59 s'").encode())
    assert await captures.work().claim_expired(captures.worker, "worker-1", 1) == []
    captures.advance_clock(2)
    (lease,) = await captures.work().claim_expired(captures.worker, "worker-1", 1)
    assert lease.key == key


async def test_a_session_that_was_started_too_often_fails_with_that_error(captures: CaptureActions) -> None:
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


def told(captures: CaptureActions) -> list[str]:
    """The messages about the only day, in order."""
    return captures.values("select message from schedule_ingest.schedule_notification order by created_at")


FIRST_FORMS = json.loads((GOLDEN / "canonical" / "1.json").read_text())


async def test_a_day_of_the_first_canonicaliser_is_carried_over_without_an_event(captures: CaptureActions) -> None:
    """Its shifts have no titles: each stays as it is until it changes."""
    day, forms = DAYS[2], FIRST_FORMS[2]["shifts"]
    await captures.capture(day)
    store_as_the_first_canonicaliser(captures, day, *forms)
    (same,) = await captures.capture(day)
    assert same is not None
    assert (same["outcome"], same["events"], told(captures)) == ("unchanged", 0, ["3 changes on 2026-02-11."])
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
    assert told(captures)[1:] == [
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
    whole = captures.one("select snapshot_payload -> 0 from schedule_ingest.day_snapshot")
    del whole["title"]
    store_as_the_first_canonicaliser(captures, payload(anna, bo), whole | form)
    lunch = {"start": "12:00", "end": "13:00", "title": "Lunch"}
    await captures.capture(payload(anna, bo), payload(anna, bo, lunch), payload(anna, lunch))
    assert told(captures)[1:] == [
        "New shift on 2026-02-10: 12:00\N{EN DASH}13:00, Lunch.",
        "Shift removed on 2026-02-10: 10:00\N{EN DASH}14:00, Städning Hos Bo.",
    ]
    rebuilt, known = captures.rebuilt()
    assert rebuilt == known
    captures.verify()


# What people are told -------------------------------------------------------------------------------------------------


async def test_a_notification_is_in_the_language_of_its_person(captures: CaptureActions) -> None:
    captures.add_user("anna", telegram_id=ANNA, language="sv")
    work = captures.work()
    await work.prepare(captures.worker)
    for day in (A, B):
        await captures.create(day)
        await captures.finish(await captures.claim(work), work)
    assert told(captures) == [
        "Nytt pass den 2026-02-10: 10:00\N{EN DASH}14:00, Anna Svensson • Städning, Storgatan 1, 412 58 Göteborg.",
        "Passet 10:00 den 2026-02-10 börjar nu 11:00.",
    ]


async def test_no_change_of_a_day_is_silent_however_it_is_spelled(captures: CaptureActions) -> None:
    """Random days, each spelled as another camera would: `duly verify` asks the same of what they leave behind."""
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


async def test_the_endless_worker_waits_until_the_last_image_is_idle(captures: CaptureActions) -> None:
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


async def test_a_session_that_is_closed_needs_no_waiting_and_no_image(captures: CaptureActions) -> None:
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


async def test_messages_of_a_session_are_delivered_in_the_order_of_the_day(captures: CaptureActions) -> None:
    work = captures.work(summary_threshold=100)
    entries = [{**ENTRY, "start": f"{hour:02}:00", "end": f"{hour:02}:30"} for hour in range(8, 16)]
    await captures.create(payload(*reversed(entries)))
    await captures.finish(await captures.claim(work), work)
    messages = captures.values(
        "select message from schedule_ingest.schedule_notification order by created_at, notification_id"
    )
    assert [message[25:30] for message in messages] == [entry["start"] for entry in entries]


async def test_many_changes_are_one_message(captures: CaptureActions) -> None:
    await captures.capture(payload(*({**ENTRY, "start": f"{hour:02}:00"} for hour in range(8, 12))))
    assert captures.rows(
        "select notification_type, message, jsonb_array_length(event_ids) from schedule_ingest.schedule_notification"
    ) == [("summary", "4 changes on 2026-02-10.", 4)]
    assert captures.one("select user_id from schedule_ingest.schedule_notification") == ANNA
