"""Random rows and updates pass the guard without a call only as the guard would have written them."""

import random

import pytest

from duly.jobs.model import JobStatus
from tests.support.jobs.actions import JobActions
from tests.support.jobs.guard_twin import DEVIATIONS, EXACT, INSERT, GuardTwin

CASES = 1_500
MAX_DEVIATIONS = 3
ROWS = """
insert into twin (id, org_id, type, status, max_attempts, starts, lease_owner, lease_expires_at, last_error_code,
    finished_at, retain_until, event_detail, stage, progress)
select
    gen_random_uuid(), '00000000-0000-0000-0000-00000000000a', 'work', s.status, 5, s.starts,
    case when s.status in ('running', 'failed') then 'me/1' end,
    case when s.status = 'running' then clock_timestamp() end,
    case when s.status in ('failed', 'dead_letter') then 'OOPS' end,
    s.finished_at, s.finished_at + interval '30 days', '{"old": true}', 'half', 50
from (
    select status, case status when 'queued' then 0 else 1 end as starts,
        case when status in ('succeeded', 'canceled', 'dead_letter') then clock_timestamp() end as finished_at
    from unnest(enum_range(null::ledger.job_status)) as status
) as s
"""


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_give_the_same_rows_with_and_without_a_call_of_the_guard(seed: int, jobs: JobActions) -> None:
    random_ = random.Random(seed)  # noqa: S311
    with jobs.admin.transaction(force_rollback=True):
        twin = GuardTwin(jobs.admin)
        twin.add_every_status(ROWS)
        for _ in range(CASES):
            kind = random_.choice(list(EXACT))
            status = kind if random_.random() < 0.8 or kind == INSERT else random_.choice(list(JobStatus)).value
            names = random_.sample(list(DEVIATIONS), random_.randint(0, MAX_DEVIATIONS))
            twin.compare_change(status, {**EXACT[kind], **{name: random_.choice(DEVIATIONS[name]) for name in names}})
    assert min(twin.passed, twin.guarded, twin.refused) > CASES / 20
