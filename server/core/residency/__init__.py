"""Which conversations are still in the engine's prefix cache, seen turn by turn from outside."""

from server.core.residency.boundary import full_prefix_boundary, is_full_prefix_hit

__all__ = ["full_prefix_boundary", "is_full_prefix_hit"]
