"""/metrics of the API: the service level objectives, read from the database, in Prometheus format."""

from collections.abc import Iterable, Iterator, Sequence

from fastapi import APIRouter, Depends, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from duly.apps.posts.http.access import metrics_reader
from duly.apps.posts.slo import Objective, measure
from duly.http.dependencies import PoolDep
from duly.http.problems import COMMON_PROBLEMS
from duly.http.request_limits import GuardedRoute

router = APIRouter(tags=["health"], route_class=GuardedRoute, responses=COMMON_PROBLEMS)

METRICS = {
    "duly_slo_met": "1 when the objective is met over 30 days, else 0.",
    "duly_slo_measured": "Measured value: share of intents, seconds of lag, or seconds leased.",
    "duly_slo_target": "Target value, in the same unit.",
    "duly_slo_events": "Events counted: intents of 30 days, posts released in 30 days or overdue, posts leased now.",
    "duly_slo_bad": "Events that missed the objective.",
    "duly_slo_budget_left": "Remaining error budget of 30 days: 1 is all of it, 0 none, below 0 overspent.",
    "duly_slo_burn_rate": "Burn rate of the error budget: 1 spends it in exactly 30 days.",
}


@router.get(
    "/metrics",
    operation_id="metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    dependencies=[Depends(metrics_reader)],
)
async def metrics(pool: PoolDep) -> Response:
    """Service level objectives of posts; needs the scope `posts:read`. Workers serve metrics on their own ports."""
    return Response(render_metrics(await measure(pool)), media_type=CONTENT_TYPE_PLAIN_0_0_4)


def render_metrics(objectives: Sequence[Objective]) -> bytes:
    """Render objectives in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(ObjectiveCollector(objectives))
    return generate_latest(registry)


class ObjectiveCollector(Collector):
    """Collects objectives as gauges; unmeasured values are left out."""

    def __init__(self, objectives: Sequence[Objective]) -> None:
        self.objectives = objectives

    def collect(self) -> Iterator[Metric]:
        """Yield one family per metric."""
        for name, description in METRICS.items():
            labels = ("objective", "window") if name == "duly_slo_burn_rate" else ("objective",)
            family = GaugeMetricFamily(name, description, labels=labels)
            for objective in self.objectives:
                for more_labels, value in metric_values(objective, name):
                    if value is not None:
                        family.add_metric([objective.name, *more_labels], value)
            yield family


def metric_values(objective: Objective, name: str) -> Iterable[tuple[Sequence[str], float | None]]:
    """Yield the values of one metric, each with its labels besides the objective."""
    match name.removeprefix("duly_slo_"):
        case "met":
            yield (), float(objective.is_met)
        case "burn_rate":
            yield from (((window,), rate) for window, rate in objective.burn_rates.items())
        case attribute:
            yield (), getattr(objective, attribute)
