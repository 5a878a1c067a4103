"""What a session leaves behind: everything in one transaction, or nothing."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from duly.ingest import day as day_module
from duly.ingest.reading import FixtureReader, NoiseReader
from tests.ingest.hands import ANNA, LEASE, SAMPLE, Hands
from tests.ingest.strategies import histories, payload

ENTRY: dict[str, Any] = {
    "start": "10:00",
    "end": "14:00",
    "title": "Anna Svensson • Städning",
    "address": "Storgatan 1, 412 58 Göteborg",
}
LATER = {**ENTRY, "start": "11:00"}
A, B = payload(ENTRY), payload(LATER)


async def test_a_first_capture_writes_everything(hands: Hands) -> None:
    (result,) = await hands.capture(A)
    assert result == {
        "outcome": "changed",
        "input": "given",
        "schedule_date": "2026-02-10",
        "version": 1,
        "events": 1,
        "notifications": 1,
    }
    assert hands.counts() == {
        "schedule_version": 1,
        "schedule_event": 1,
        "schedule_notification": 1,
        "day_snapshot": 1,
        "day_schedule": 1,
    }
    row = hands.rows("select state::text, locked_at, locked_by, error from schedule_ingest.capture_session")
    assert row == [("done", None, None, None)]
    assert hands.values("select message from schedule_ingest.schedule_notification") == [
        "New shift on 2026-02-10: 10:00\N{EN DASH}14:00, Göteborg."
    ]
    hands.verify()


async def test_an_unchanged_capture_writes_nothing_but_who_looked_last(hands: Hands) -> None:
    await hands.capture(A)
    before = hands.one("select updated_at from schedule_ingest.day_snapshot")
    (result,) = await hands.capture(payload({**ENTRY, "title": "ANNA  SVENSSON • städning"}))
    assert result is not None
    assert (result["outcome"], result["version"], result["events"]) == ("unchanged", 1, 0)
    assert hands.counts() == dict.fromkeys(hands.counts(), 1)
    latest = "select id from schedule_ingest.capture_session order by created_at desc limit 1"
    assert hands.one("select source_session_id from schedule_ingest.day_snapshot") == hands.one(latest)
    assert hands.one("select updated_at from schedule_ingest.day_snapshot") > before
    hands.verify()


async def test_a_day_that_goes_there_and_back_and_there_again_has_every_change(hands: Hands) -> None:
    results = await hands.capture(A, B, A, B)
    assert [result["version"] for result in results if result] == [1, 2, 3, 4]
    assert hands.count("schedule_event") == 4
    assert hands.count("schedule_notification") == 4
    rebuilt, known = hands.rebuilt()
    assert rebuilt == known
    hands.verify()


async def test_a_key_that_we_do_not_know_makes_a_version_and_no_event(hands: Hands) -> None:
    results = await hands.capture(A, {**A, "weather": "rain"})
    assert [(result["version"], result["events"]) for result in results if result] == [(1, 1), (2, 0)]
    assert hands.count("schedule_notification") == 1


async def test_sessions_of_one_day_in_one_batch_take_their_turns(hands: Hands) -> None:
    keys = await hands.bring(A, B, A, A)
    assert await hands.finish(await hands.hold(most=10)) == frozenset(keys)
    results = hands.values("select result from schedule_ingest.capture_session order by created_at, id")
    assert [(each["outcome"], each["version"]) for each in results] == [
        ("changed", 1),
        ("changed", 2),
        ("changed", 3),
        ("unchanged", 3),
    ]
    assert hands.rebuilt()[0] == hands.rebuilt()[1]
    hands.verify()


async def test_many_people_and_days_in_one_batch_do_not_meet(hands: Hands) -> None:
    for user in range(5):
        for date in ("2026-02-10", "2026-02-11"):
            await hands.bring(payload(ENTRY, date=date), payload(LATER, date=date), user=user)
    assert len(await hands.finish(await hands.hold(most=100))) == 20
    assert hands.values("select current_version from schedule_ingest.day_schedule") == [2] * 10
    hands.verify()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories)
async def test_whatever_a_day_was_its_events_rebuild_it(hands: Hands, history: list[dict[str, Any]]) -> None:
    user = hands.one("select coalesce(max(user_id), 0) + 1 from schedule_ingest.capture_session")
    await hands.capture(*history, *history, user=user)
    rebuilt, known = hands.rebuilt(user)
    assert rebuilt == known


async def test_noise_leaves_one_version(hands: Hands) -> None:
    work = hands.work(NoiseReader(FixtureReader(SAMPLE), seed=3))
    for _ in range(10):
        await hands.open()
    await hands.finish(await hands.hold(work, most=10), work)
    assert hands.count("schedule_version") == 1
    assert hands.values("select distinct result ->> 'input' from schedule_ingest.capture_session") == ["fixture"]


# Failing --------------------------------------------------------------------------------------------------------------


async def test_what_cannot_be_read_fails_with_a_sentence_and_disturbs_nobody(hands: Hands, tmp_path: Path) -> None:
    path = tmp_path / "day.json"
    path.write_text('{"schedule_date": "2026-02-10", "entries": [{"start": "late", "end": "14:00", "title": "x"}]}')
    work = hands.work(FixtureReader(path))
    bad = await hands.open()
    (good,) = await hands.bring(A)
    assert await hands.finish(await hands.hold(work, most=2), work) == {bad, good}
    assert hands.rows(
        "select id, state::text, error, result from schedule_ingest.capture_session where id = %s", bad
    ) == [(bad, "failed", "entries[0].start: must be a time such as 10:00, not 'late'", None)]
    assert hands.path(bad) == ["pending", "processing", "failed"]
    assert hands.path(good)[-1] == "done"
    assert hands.count("schedule_version") == 1
    hands.verify()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read (No such file or directory); FIXTURE_PAYLOAD_PATH names the file"),
        ("{", "is not JSON"),
        ("[]", "must hold an object with schedule_date and entries"),
        ("[" * 100_000, "is not JSON"),
    ],
)
async def test_a_bad_file_fails_the_session_by_its_name(
    hands: Hands, tmp_path: Path, text: str | None, words: str
) -> None:
    path = tmp_path / "day.json"
    if text is not None:
        path.write_text(text)
    work = hands.work(FixtureReader(path))
    await hands.open()
    await hands.finish(await hands.hold(work), work)
    error = hands.one("select error from schedule_ingest.capture_session")
    assert error.startswith(str(path))
    assert words in error


# Fencing --------------------------------------------------------------------------------------------------------------


async def test_a_worker_that_lost_its_lease_writes_nothing(hands: Hands) -> None:
    await hands.bring(A)
    stale = await hands.hold()
    hands.pass_time(LEASE + 1)
    (taken,) = await hands.work().claim_lapsed(hands.worker, "worker-1", 1)
    assert await hands.finish(stale) == frozenset()
    assert hands.counts() == dict.fromkeys(hands.counts(), 0)
    assert await hands.finish([taken]) == {taken.key}
    assert hands.counts() == dict.fromkeys(hands.counts(), 1)


async def test_a_lost_session_does_not_shift_the_others_of_its_day(hands: Hands) -> None:
    await hands.bring(A)
    stale = await hands.hold()
    hands.pass_time(LEASE + 1)
    (taken,) = await hands.work().claim_lapsed(hands.worker, "worker-1", 1)
    await hands.bring(B)
    mine = await hands.hold()
    assert await hands.finish([*stale, *mine]) == {mine[0].key}
    assert await hands.finish([taken]) == {taken.key}
    assert hands.values("select version from schedule_ingest.schedule_version order by version") == [1, 2]
    assert hands.rebuilt()[0] == hands.rebuilt()[1]


async def test_settling_again_after_the_answer_was_lost_is_success_and_writes_nothing(hands: Hands) -> None:
    await hands.bring(A)
    leases = await hands.hold()
    assert await hands.finish(leases) == {leases[0].key}
    before = hands.counts()
    assert await hands.finish(leases) == {leases[0].key}
    assert hands.counts() == before


async def test_a_holder_that_wrote_no_length_has_the_workers_own(hands: Hands) -> None:
    key = await hands.open()
    update = "update schedule_ingest.capture_session set state = 'processing', locked_by = 'psql', locked_at = {}"
    hands.admin.execute(update.format("duly.clock() - interval '59 s'").encode())
    assert await hands.work().claim_lapsed(hands.worker, "worker-1", 1) == []
    hands.pass_time(2)
    (lease,) = await hands.work().claim_lapsed(hands.worker, "worker-1", 1)
    assert lease.key == key


async def test_a_session_that_was_started_too_often_fails_and_says_so(hands: Hands) -> None:
    await hands.bring(A)
    work = hands.work()
    await hands.hold(work)
    for _ in range(work.pace.most_starts - 1):
        hands.pass_time(LEASE + 1)
        assert len(await work.claim_lapsed(hands.worker, "worker-1", 1)) == 1
    hands.pass_time(LEASE + 1)
    assert await work.claim_lapsed(hands.worker, "worker-1", 1) == []
    assert await work.sweep(hands.worker) == 1
    ((state, error),) = hands.rows("select state::text, error from schedule_ingest.capture_session")
    assert state == "failed"
    assert error.startswith("It was started too often")


# Canonicalisers -------------------------------------------------------------------------------------------------------


async def test_a_better_canonicaliser_is_not_mistaken_for_a_changed_day(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if an older canonicaliser had left blanks in names: the stored day is read again with ours."""
    await hands.capture(A)
    admin = hands.admin
    admin.execute("set session_replication_role = replica")
    admin.execute(
        "update schedule_ingest.schedule_version set canonicalizer = 0, payload_hash = 'old',"
        " payload = replace(payload::text, 'Anna Svensson', 'Anna   Svensson')::jsonb"
    )
    admin.execute("update schedule_ingest.day_snapshot set canonicalizer = 0")
    admin.execute("reset session_replication_role")
    (same, other) = await hands.capture(A, B)
    assert same is not None
    assert other is not None
    assert (same["outcome"], same["events"]) == ("unchanged", 0)
    assert (other["outcome"], other["version"], other["events"]) == ("changed", 2, 1)
    assert hands.one("select canonicalizer from schedule_ingest.day_snapshot") == day_module.CANONICALIZER


# Being ready ----------------------------------------------------------------------------------------------------------


async def test_the_endless_worker_waits_until_the_last_image_is_idle(hands: Hands) -> None:
    work = hands.work(due="closed_at", idle_seconds=25)
    key = await hands.open()
    empty = await hands.open()
    add = "insert into schedule_ingest.capture_image (session_id, sequence, r2_key) values (%s, %s, %s)"
    hands.admin.execute(add.encode(), [key, 1, "one"])
    hands.pass_time(20)
    hands.admin.execute(add.encode(), [key, 2, "two"])
    hands.pass_time(20)
    assert await hands.hold(work) == []
    hands.pass_time(6)
    work.look_at = 0
    (lease,) = await hands.hold(work)
    assert lease.key == key
    assert hands.path(empty) == ["pending"]
    assert hands.path(key) == ["pending", "pending", "processing"]


async def test_a_session_that_is_closed_needs_no_waiting_and_no_image(hands: Hands) -> None:
    work = hands.work(due="closed_at")
    key = await hands.open()
    assert await hands.hold(work) == []
    hands.admin.execute("update schedule_ingest.capture_session set closed_at = duly.clock()")
    (lease,) = await hands.hold(work)
    assert lease.key == key


async def test_without_eyes_a_worker_takes_only_what_was_given_as_data(hands: Hands) -> None:
    work = hands.work(due="given_at")
    await hands.open()
    (given_key,) = await hands.bring(A)
    assert [lease.key for lease in await hands.hold(work, most=5)] == [given_key]


async def test_messages_of_a_session_are_delivered_in_the_order_of_the_day(hands: Hands) -> None:
    work = hands.work(threshold=100)
    entries = [{**ENTRY, "start": f"{hour:02}:00", "end": f"{hour:02}:30"} for hour in range(8, 16)]
    await hands.bring(payload(*reversed(entries)))
    await hands.finish(await hands.hold(work), work)
    messages = hands.values(
        "select message from schedule_ingest.schedule_notification order by created_at, notification_id"
    )
    assert [message[25:30] for message in messages] == [entry["start"] for entry in entries]


async def test_many_changes_are_one_message(hands: Hands) -> None:
    await hands.capture(payload(*({**ENTRY, "start": f"{hour:02}:00"} for hour in range(8, 12))))
    assert hands.rows(
        "select notification_type, message, jsonb_array_length(event_ids) from schedule_ingest.schedule_notification"
    ) == [("summary", "4 changes on 2026-02-10.", 4)]
    assert hands.one("select user_id from schedule_ingest.schedule_notification") == ANNA
