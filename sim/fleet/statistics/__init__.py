"""What is said of a fleet's runs, and how sure it is. Pure functions of plain numbers."""

from sim.fleet.statistics.confidence import SeedMean, seed_mean, wilson_interval
from sim.fleet.statistics.fairness import jain_index
from sim.fleet.statistics.low_hit import LOW_HIT, WINDOW_S, first_low_hit_s
from sim.fleet.statistics.quantiles import quantile, quantiles
from sim.fleet.statistics.run_length import episode_s, needed_duration_s, too_short
from sim.fleet.statistics.survival import Duration, SurvivalCurve, SurvivalStep, kaplan_meier

__all__ = [
    "LOW_HIT",
    "WINDOW_S",
    "Duration",
    "SeedMean",
    "SurvivalCurve",
    "SurvivalStep",
    "episode_s",
    "first_low_hit_s",
    "jain_index",
    "kaplan_meier",
    "needed_duration_s",
    "quantile",
    "quantiles",
    "seed_mean",
    "too_short",
    "wilson_interval",
]
