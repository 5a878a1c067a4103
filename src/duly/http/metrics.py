"""/metrics of the API: how the promises stand, read from the database, in Prometheus' format."""

from collections.abc import Iterable, Iterator, Sequence

from fastapi import APIRouter, Depends, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from duly.apps.posts.slo import Objective, measure
from duly.errors import Forbidden, InvalidArgument, NotMigrated, TooLarge, Unauthorized, Unavailable, Unexpected
from duly.http.auth import operator
from duly.http.dependencies import Opened
from duly.http.problems import refusals
from duly.http.request_limits import GuardedRoute

__all__ = ["FIGURES", "router", "text_of"]

router = APIRouter(
    tags=["health"],
    route_class=GuardedRoute,
    responses=refusals(Unauthorized, Forbidden, TooLarge, InvalidArgument, Unexpected, NotMigrated, Unavailable),
)

FIGURES = {
    "duly_slo_met": "1 when the promise is kept over 30 days, else 0.",
    "duly_slo_measured": "What was measured: a share of intents, seconds of lag, seconds held.",
    "duly_slo_target": "What was promised, in the same unit.",
    "duly_slo_events": "What was counted: intents of 30 days, posts released in 30 days or overdue, posts held now.",
    "duly_slo_bad": "How many of them broke the promise.",
    "duly_slo_budget_left": "Of what may go wrong in 30 days: 1 all of it, 0 none, below 0 overdrawn.",
    "duly_slo_burn_rate": "How fast that is used up: 1 uses it up in just 30 days.",
}


@router.get(
    "/metrics",
    operation_id="metrics",
    summary="Figures for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    dependencies=[Depends(operator)],
)
async def metrics(pool: Opened) -> Response:
    """How the promises about posts stand; needs the scope `posts:read`. Workers tell their own on a port of theirs."""
    return Response(text_of(await measure(pool)), media_type=CONTENT_TYPE_PLAIN_0_0_4)


def text_of(objectives: Sequence[Objective]) -> bytes:
    """Objectives as Prometheus reads them."""
    registry = CollectorRegistry()
    registry.register(Promises(objectives))
    return generate_latest(registry)


class Promises(Collector):
    """Objectives as figures; what was not measured is left out."""

    def __init__(self, objectives: Sequence[Objective]) -> None:
        self.objectives = objectives

    def collect(self) -> Iterator[Metric]:
        """One family for each figure."""
        for name, words in FIGURES.items():
            labels = ("objective", "window") if name == "duly_slo_burn_rate" else ("objective",)
            family = GaugeMetricFamily(name, words, labels=labels)
            for objective in self.objectives:
                for more, value in figures_of(objective, name):
                    if value is not None:
                        family.add_metric([objective.name, *more], value)
            yield family


def figures_of(objective: Objective, name: str) -> Iterable[tuple[Sequence[str], float | None]]:
    """The values of one figure, each with its further labels."""
    match name.removeprefix("duly_slo_"):
        case "met":
            yield (), float(objective.is_met)
        case "burn_rate":
            yield from (((window,), rate) for window, rate in objective.burn_rates.items())
        case attribute:
            yield (), getattr(objective, attribute)
