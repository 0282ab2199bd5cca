"""What is said of a fleet's runs, and how sure it is. Pure functions of plain numbers."""

from sim.fleet.statistics.fairness import jain_index
from sim.fleet.statistics.low_hit import LOW_HIT, WINDOW_S, first_low_hit_s
from sim.fleet.statistics.quantiles import quantile, quantiles

__all__ = [
    "LOW_HIT",
    "WINDOW_S",
    "first_low_hit_s",
    "jain_index",
    "quantile",
    "quantiles",
]
