"""Builds the work on posts from the settings."""

from duly.apps.posts.alerts import OPERATOR, Alerts
from duly.apps.posts.reading import Analyzer
from duly.apps.posts.work import PostWork
from duly.assembly import WorkPlan
from duly.lease.work import Tuning, Work
from duly.settings import Settings
from duly.storage import open_object_store


def build_post_work(plan: WorkPlan) -> Work:
    """Build the work on posts whose release time has come."""
    settings = plan.settings
    lease = settings.posts_lease_seconds
    tuning = Tuning(
        lease_seconds=lease,
        heartbeat_seconds=lease / 4,
        poll_seconds=settings.poll_seconds,
        sweep_seconds=settings.sweep_seconds,
        slots=settings.posts_slots,
    )
    return PostWork(
        build_analyzer(settings),
        tuning,
        objects=open_object_store(settings),
        analyzer_seconds=settings.posts_analyzer_seconds,
        alerts=Alerts(settings.alert_channel, settings.alert_recipient or OPERATOR),
    )


def build_analyzer(settings: Settings) -> Analyzer:
    """Build the analyzer of posts: rules on this machine, or a language model."""
    if settings.posts_analyzer == "rules":
        from duly.apps.posts.rules import RulesAnalyzer

        return RulesAnalyzer()
    from duly.apps.posts.language_model import LanguageModelAnalyzer

    assert settings.openai_model, "required by the settings"
    key = settings.openai_api_key
    return LanguageModelAnalyzer(
        settings.openai_model,
        key=key.get_secret_value() if key else None,
        base_url=settings.openai_base_url,
        seconds=settings.openai_seconds,
    )
