"""Owners and ids: unique, and readable where people read them."""

import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.configuration.engine import MAX_WORKER_ID_LENGTH
from duly.errors import InvalidArgument
from duly.lease.owner import new_id, new_owner, worker_from_owner

WORKER_IDS = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=MAX_WORKER_ID_LENGTH)


def test_lease_owner_is_the_worker_id_and_a_token_of_at_least_128_bits() -> None:
    worker, _, token = new_owner("worker-1").rpartition("/")
    assert worker == "worker-1"
    assert re.fullmatch(r"[A-Za-z0-9_-]{22,}", token)


def test_no_two_claims_of_one_worker_have_the_same_owner() -> None:
    assert len({new_owner("worker-1") for _ in range(10_000)}) == 10_000


@given(WORKER_IDS)
def test_worker_id_can_be_read_from_a_lease_owner(worker_id: str) -> None:
    assert worker_from_owner(new_owner(worker_id)) == worker_id


@pytest.mark.parametrize("worker_id", ["a/b", "/", "a/", "host/4242/AAAAAAAAAAAAAAAAAAAAAA", "arbeiter-ü"])
def test_worker_id_may_contain_slashes_and_any_letters(worker_id: str) -> None:
    assert worker_from_owner(new_owner(worker_id)) == worker_id


@pytest.mark.parametrize("owner", ["worker-1", "team/worker-1", "", "/", "/AAAAAAAAAAAAAAAAAAAAAA"])
def test_lease_owner_without_a_token_is_the_worker_id(owner: str) -> None:
    assert worker_from_owner(owner) == owner


@pytest.mark.parametrize(
    "worker_id",
    [
        "",
        " ",
        "a\0b",
        "a\nb",
        "\ud800",
        "b\u00fcro\u00a01",
        "a\u200b",
        "x" * (MAX_WORKER_ID_LENGTH + 1),
        "x" * 1_000_000,
    ],
)
def test_unprintable_worker_id_is_refused_and_the_setting_named(worker_id: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^WORKER_ID=") as refusal:
        new_owner(worker_id)
    assert len(str(refusal.value)) < 400


def test_an_id_is_a_standard_uuid_of_version_7() -> None:
    made = new_id()
    assert type(made) is uuid.UUID
    assert made.version == 7
    assert made.variant == uuid.RFC_4122


def test_ids_of_one_process_sort_in_the_order_of_creation() -> None:
    made = [new_id() for _ in range(20_000)]
    assert made == sorted(set(made))
