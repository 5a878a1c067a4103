"""Drawn images of every layout, read with the real engine: hardly one is silently wrong, and most shifts are right."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from duly.apps.ingest.ocr.engine import EngineConfig, OcrEngine, build_engine
from duly.apps.ingest.ocr.reader import read_days
from duly.errors import MissingExtra
from duly.storage.photo import decode_photo
from tools.schedule_images import Plan, plan_some, render
from tools.schedule_images.damages import DAMAGES
from tools.schedule_images.fonts import FAMILIES, MissingFonts, missing_fonts
from tools.schedule_images.layouts import LAYOUTS, REFUSED
from tools.schedule_images.score import YEAR, Outcome, compare

pytestmark = pytest.mark.timeout(1800)
SEED = 20_260_907
IMAGES_PER_LAYOUT = 2
MAX_SILENTLY_WRONG = 1  # images
MIN_RIGHT = 0.9  # of the shifts of readable images; a refused image has none right


@dataclass(frozen=True)
class Read:
    """An image that was drawn and read."""

    plan: Plan
    outcome: Outcome

    @property
    def miss(self) -> str:
        """What is not right, for people."""
        outcome = self.outcome
        return (
            f"{self.plan.name} (number {self.plan.number}) is {outcome.verdict}: drawn {outcome.missing}, "
            f"read {outcome.extra}, problems {outcome.problems}"
        )


@pytest.fixture
def engine() -> OcrEngine:
    """The best one here."""
    try:
        return build_engine(EngineConfig())
    except MissingExtra as error:
        pytest.skip(str(error))


@pytest.fixture
def fonts() -> list[str]:
    """The families that are installed."""
    missing = missing_fonts()
    if len(missing) == len(FAMILIES):
        pytest.skip(str(MissingFonts(missing)))
    return [name for name in FAMILIES if name not in missing]


def read_image(plan: Plan, engine: OcrEngine) -> Read:
    """Draw an image, and read it."""
    sample = render(plan)
    picture = decode_photo(sample.data)
    pages = read_days(engine.recognise(picture), picture.width, picture.height, YEAR)
    return Read(plan, compare(pages, sample.truth.to_json()))


def share_right(outcomes: Sequence[Outcome]) -> float:
    """How many of the shifts that were drawn are right in images that were not refused."""
    right = sum(outcome.right for outcome in outcomes if outcome.verdict != "refused")
    return right / sum(outcome.drawn for outcome in outcomes)


def test_drawn_images_of_every_layout_are_read_correctly_or_refused(engine: OcrEngine, fonts: list[str]) -> None:
    plans = plan_some(SEED, IMAGES_PER_LAYOUT * len(LAYOUTS), list(LAYOUTS), fonts, list(DAMAGES))
    images = [read_image(plan, engine) for plan in plans]
    wrong = [image.miss for image in images if image.outcome.verdict == "wrong"]
    accepted = [image.miss for image in images if image.plan.layout in REFUSED and image.outcome.verdict != "refused"]
    readable = [image for image in images if image.plan.layout not in REFUSED]
    misses = "\n".join(image.miss for image in readable if image.outcome.verdict != "right")
    assert not accepted, "\n".join(accepted)
    assert len(wrong) <= MAX_SILENTLY_WRONG, "\n".join(wrong)
    assert share_right([image.outcome for image in readable]) >= MIN_RIGHT, misses
