"""Capacity planning: the planner, the cliff experiments, and the engine without a model."""
