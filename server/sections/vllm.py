"""Settings of the engine that hosts a model with vLLM in a process of this server."""

from __future__ import annotations

from dataclasses import dataclass

from server.setting import Options, setting

#: Names of settings that are handed to vLLM as they are, under the same name.
ENGINE_ARGUMENTS = (
    "load_format",
    "dtype",
    "seed",
    "tensor_parallel_size",
    "max_model_len",
    "gpu_memory_utilization",
    "num_gpu_blocks_override",
    "block_size",
    "max_num_seqs",
    "max_num_batched_tokens",
    "enable_prefix_caching",
    "mamba_cache_mode",
    "mamba_block_size",
    "mamba_ssm_cache_dtype",
    "enforce_eager",
)


@dataclass(frozen=True)
class VllmSection:
    """The model that brain.engine = "vllm" hosts. Settings that are absent are left to vLLM."""

    model: str = setting("", "Folder of the model, or its name at a hub that vLLM downloads from.")
    tokenizer: str = setting("", "Folder or name of the tokenizer. Empty: the model's own.")
    load_format: str = setting(
        "auto", "How weights are read; dummy: random weights, for tests without any."
    )
    dtype: str = setting("auto", "Type of the weights and activations; auto: the model's.")
    seed: int = setting(0, "Of the random numbers of the engine.", minimum=0)
    tensor_parallel_size: int = setting(
        1, "GPUs that share each layer of the model.", minimum=1, maximum=1024
    )
    max_model_len: int | None = setting(
        None, "Longest context, tokens. Absent: the model's own.", minimum=16
    )
    gpu_memory_utilization: float | None = setting(
        None, "Share of each GPU's memory for weights and cache.", minimum=0.01, maximum=1.0
    )
    num_gpu_blocks_override: int | None = setting(
        None, "Blocks of the cache. Absent: as many as fit.", minimum=2
    )
    block_size: int | None = setting(
        None,
        "Tokens of a cache block. For hybrid models vLLM raises it until a block of attention and "
        "a state snapshot take the same memory.",
        minimum=1,
    )
    max_num_seqs: int | None = setting(
        None, "Turns computed at once; others wait, by the robots' slack.", minimum=1
    )
    max_num_batched_tokens: int | None = setting(
        None, "Tokens computed in one step; longer prompts are cut into such parts.", minimum=1
    )
    enable_prefix_caching: bool = setting(
        True, "Keep the cache of earlier turns. Without it every turn computes its whole prompt."
    )
    prefix_cache_retention_interval: int | None = setting(
        None,
        "Hybrid models: 0 keeps the state snapshot at the last whole block of each prompt, N more "
        "keeps one every N tokens besides, -1 keeps every one. With 0, blocks that an answer fills "
        "are computed again at the next turn.",
        minimum=-1,
    )
    mamba_cache_mode: str | None = setting(
        None, "Hybrid models: which state snapshots are made.", choices=("align", "none")
    )
    mamba_block_size: int | None = setting(
        None, "Hybrid models: tokens between state snapshots.", minimum=8
    )
    mamba_ssm_cache_dtype: str | None = setting(None, "Hybrid models: type of the states.")
    enforce_eager: bool = setting(False, "No compilation and no CUDA graphs: starts sooner.")
    max_images: int | None = setting(
        None, "Most pictures in one conversation. Absent: no bound but the context.", minimum=0
    )
    chat_template: str = setting("", "File with a chat template. Empty: the tokenizer's own.")
    chat_template_kwargs: Options = setting(
        {}, "Variables of the chat template, for example enable_thinking = false."
    )
    tool_call_parser: str = setting(
        "hermes", "vLLM's parser of tool calls for this model; empty: the model calls no tools."
    )
    reasoning_parser: str = setting(
        "", "vLLM's parser that tells thinking from the answer. Empty: all is answer."
    )
    tool_calls: str = setting(
        "auto",
        "How tool calls are forced: off leaves the model free; auto holds a call that it starts to "
        "the tool's schema; required makes it write one valid call and no text.",
        choices=("off", "auto", "required"),
    )
    temperature: float | None = setting(
        None, "Of turns that name none. Absent: the model's own default.", minimum=0.0
    )
    top_p: float | None = setting(
        None, "Of turns that name none. Absent: the model's own default.", minimum=0.0, maximum=1.0
    )
    max_output_tokens: int = setting(
        4096,
        "Longest answer of turns that name none. As much of the context is kept free for it.",
        minimum=1,
    )
    context_policy: str = setting(
        "end",
        "When a conversation would pass max_model_len: end ends the episode with a reason; compact "
        "takes its oldest turns out.",
        choices=("end", "compact"),
    )
    compact_to_share: float = setting(
        0.5,
        'With context_policy "compact": share of the context that is left in use.',
        minimum=0.1,
        maximum=0.9,
    )
    kv_offload_gib: float | None = setting(
        None,
        "Host memory for cache blocks that leave the GPUs, GiB, all GPUs together; read back on a "
        "hit (vLLM's kv_offloading_size with its native backend). Absent: none.",
        minimum=0.1,
    )
    engine_args: Options = setting(
        {}, "More arguments of vLLM's AsyncEngineArgs, by their names there."
    )
