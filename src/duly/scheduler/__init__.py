"""Scheduler: what recurs. So far the rules alone: when something fires, in which zone, and what its periods are."""

from duly.scheduler.rule import Grain, Rule, parse_rule

__all__ = ["Grain", "Rule", "parse_rule"]
