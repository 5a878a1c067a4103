"""Plan which images are drawn, and draw them: the same plan gives the same image, whatever else is drawn."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from tools.schedule_images.damages import DAMAGES
from tools.schedule_images.fonts import find_font
from tools.schedule_images.layouts import LAYOUTS
from tools.schedule_images.truth import Truth


@dataclass(frozen=True)
class Plan:
    """An image to draw: `number` tells images of one seed apart that share everything else."""

    seed: int
    number: int
    layout: str
    font: str
    damage: str

    @property
    def name(self) -> str:
        """The name of the file, without its suffix."""
        return f"{self.layout}-{self.font}-{self.damage}"


@dataclass(frozen=True)
class Sample:
    """An image as a file, and what it shows."""

    data: bytes
    suffix: str
    truth: Truth


def plan_all(seed: int, layouts: Sequence[str], fonts: Sequence[str], damages: Sequence[str]) -> Iterator[Plan]:
    """Plan every layout with every font and every damage once."""
    for layout, font, damage in product(layouts, fonts, damages):
        yield Plan(seed, 0, layout, font, damage)


def plan_some(
    seed: int, count: int, layouts: Sequence[str], fonts: Sequence[str], damages: Sequence[str]
) -> Iterator[Plan]:
    """Plan this many images: every layout as often as the others, fonts and damages at random."""
    rng = random.Random(f"plan {seed}")  # noqa: S311
    order = rng.sample(list(layouts), len(layouts))
    for number in range(count):
        yield Plan(seed, number, order[number % len(order)], rng.choice(fonts), rng.choice(damages))


def render(plan: Plan) -> Sample:
    """Draw an image and damage it; raise MissingFonts when its font is not installed."""
    rng = random.Random(f"{plan.seed} {plan.number} {plan.name}")  # noqa: S311
    drawing = LAYOUTS[plan.layout](rng, find_font(plan.font))
    data, suffix = DAMAGES[plan.damage](drawing, rng)
    return Sample(data, suffix, drawing.truth)
