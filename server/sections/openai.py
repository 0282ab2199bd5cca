"""Settings of the engine that asks an OpenAI-compatible endpoint."""

from __future__ import annotations

from dataclasses import dataclass

from server.setting import Options, setting


@dataclass(frozen=True)
class OpenAiSection:
    """The endpoint that brain.engine = "openai" asks."""

    base_url: str = setting(
        "", "Address of the endpoint up to and including /v1, http or https. Required."
    )
    model: str = setting("", "Name of the model at the endpoint. Required.")
    api_key_env: str = setting(
        "", "Name of the environment variable that holds the key. The key itself is no setting."
    )
    api_key_file: str = setting("", "File that holds the key, instead of api_key_env.")
    api_key_header: str = setting(
        "Authorization",
        "Header that carries the key: `Bearer KEY` in Authorization, the bare key in any other.",
    )
    ca_file: str = setting(
        "",
        "PEM bundle to check the endpoint's certificate with. Empty: the system's. Certificates "
        "are always checked.",
    )
    connect_timeout_s: float = setting(
        10.0, "Longest wait for a connection.", minimum=0.1, maximum=300.0
    )
    first_token_timeout_s: float = setting(
        600.0,
        "Longest silence before the first part of an answer: queue and prefill of the endpoint.",
        minimum=0.1,
        maximum=7200.0,
    )
    silence_timeout_s: float = setting(
        120.0,
        "Longest silence within an answer. Keep-alive comments are silence, too.",
        minimum=0.1,
        maximum=7200.0,
    )
    max_retries: int = setting(
        4,
        "Repetitions of a request that the endpoint certainly did not take: no connection, 429, "
        "503. Nothing else is repeated.",
        minimum=0,
        maximum=100,
    )
    max_retry_wait_s: float = setting(
        30.0,
        "A Retry-After beyond this is handed to the robot instead of being waited for.",
        minimum=0.0,
        maximum=3600.0,
    )
    probe_interval_s: float = setting(
        10.0,
        "How often the endpoint's model list is asked for, to know whether it can be used.",
        minimum=0.1,
        maximum=3600.0,
    )
    max_images: int | None = setting(
        None,
        "Most pictures in one conversation; beyond it the episode ends at its context limit. 0: "
        "the model takes none.",
        minimum=0,
    )
    max_context_tokens: int | None = setting(
        None,
        "Context limit of the model. Absent: what the endpoint's model list says (max_model_len), "
        "or unknown.",
        minimum=1,
    )
    image_format: str = setting(
        "jpeg",
        "Form in which raw pictures are sent; JPEG and PNG files of a robot are passed on as they "
        "are.",
        choices=("jpeg", "png"),
    )
    jpeg_quality: int = setting(90, "Quality of these JPEG files.", minimum=1, maximum=100)
    strict_tools: bool = setting(
        False,
        "Ask the endpoint to hold the model to the schemas of the tools (`strict` on every tool). "
        "vLLM then writes calls by grammar; OpenAI takes only schemas that require every argument.",
    )
    tool_images: str = setting(
        "user",
        "Where pictures that tools return go: into a user message behind the tool results, which "
        "every endpoint takes, or into the tool message itself, which vLLM takes.",
        choices=("user", "tool"),
    )
    reasoning: str = setting(
        "auto",
        "Field in which the model's thinking is sent back with its message. auto: the one it came "
        "in; drop: it is not sent back.",
        choices=("auto", "reasoning", "reasoning_content", "drop"),
    )
    stream_usage: str = setting(
        "auto",
        "Whether token counts are asked for (stream_options.include_usage). auto: until the "
        "endpoint refuses the option.",
        choices=("auto", "on", "off"),
    )
    missing_cached_tokens: str = setting(
        "unknown",
        "What a token count without cached tokens means. Some endpoints leave a zero out; an "
        "operator who knows that says zero.",
        choices=("unknown", "zero"),
    )
    max_tokens_field: str = setting(
        "max_tokens",
        "Name of the field that bounds the answer.",
        choices=("max_tokens", "max_completion_tokens"),
    )
    send_trace_context: bool = setting(
        True, "Send the turn's W3C trace context as headers, for endpoints that record spans."
    )
    extra_body: Options = setting(
        {}, "More fields of every request, for example {tool_choice = 'required'}."
    )
    extra_headers: Options = setting({}, "More headers of every request; no keys, they are shown.")
