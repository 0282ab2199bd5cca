"""Settings of the engine that hosts a model with vLLM in a process of this server."""

from __future__ import annotations

from dataclasses import dataclass

from server.setting import setting


@dataclass(frozen=True)
class VllmSection:
    """The model that brain.engine = "vllm" hosts."""

    model: str = setting("", "Folder or hub name of the model.")
