"""From a configured policy to its factory."""

from __future__ import annotations

#: Factories of the policies that come with the project, by `kind`.
BUILT_IN = {
    "flow": "server.policy.flow_adapter:FlowAdapter",
    "pi05": "server.policy.pi05.factory:create",
    "openpi": "server.policy.openpi.factory:create",
}


def factory_path(kind: str, factory: str) -> str:
    """`module:callable` of a configured policy."""
    return factory if kind == "factory" else BUILT_IN[kind]
