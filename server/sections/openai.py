"""Settings of the engine that asks an OpenAI-compatible endpoint."""

from __future__ import annotations

from dataclasses import dataclass

from server.setting import setting


@dataclass(frozen=True)
class OpenAiSection:
    """The endpoint that brain.engine = "openai" asks."""

    base_url: str = setting("", "Address of the endpoint up to and including /v1.")
    model: str = setting("", "Name of the model at the endpoint.")
