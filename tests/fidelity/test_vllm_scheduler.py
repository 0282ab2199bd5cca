"""vLLM's own scheduler and block pool, with no model and no engine process, in virtual time.

What the brain tier rests on is pinned here against vLLM itself: the prompt of a second turn that
extends the first turn's is found whole in the prefix cache, up to the last full block.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from server.core.residency import full_prefix_boundary

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

pytest.importorskip("vllm", reason="vLLM is not installed; see `make setup`")

pytestmark = [
    pytest.mark.vllm,
    # vLLM and what it imports warn about themselves.
    pytest.mark.filterwarnings("ignore"),
]

BLOCK_TOKENS = 16
STEP_TOKENS = 64
POOL_BLOCKS = 64
# The smallest model description that vLLM's configuration accepts; no weight of it is ever made.
MODEL = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "vocab_size": 512,
    "max_position_embeddings": 1024,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}


@dataclass(frozen=True)
class Turn:
    """What the scheduler did for one prompt, in tokens."""

    prompt: list[int]
    output: list[int]
    cached_tokens: int
    computed_tokens: int


class VirtualEngine:
    """The scheduler of vLLM, stepped by hand; every step 'samples' token 7.

    `num_state_groups` adds groups of layers with a recurrent state, as hybrid models have them.
    """

    def __init__(self, model_folder: Path, num_state_groups: int = 0) -> None:
        import torch
        from vllm.engine.arg_utils import EngineArgs
        from vllm.utils.hashing import get_hash_fn_by_name
        from vllm.v1.core.kv_cache_utils import (
            get_request_block_hasher,
            init_none_hash,
            resolve_kv_cache_block_sizes,
        )
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.kv_cache_interface import (
            FullAttentionSpec,
            KVCacheConfig,
            KVCacheGroupSpec,
            MambaSpec,
        )
        from vllm.v1.structured_output import StructuredOutputManager

        config = EngineArgs(
            model=str(model_folder),
            skip_tokenizer_init=True,
            load_format="dummy",
            enforce_eager=True,
            enable_prefix_caching=True,
            block_size=BLOCK_TOKENS,
            max_model_len=MODEL["max_position_embeddings"],
            max_num_seqs=4,
            max_num_batched_tokens=STEP_TOKENS,
        ).create_engine_config()
        config.cache_config.num_gpu_blocks = POOL_BLOCKS
        attention = FullAttentionSpec(
            block_size=BLOCK_TOKENS, num_kv_heads=1, head_size=1, dtype=torch.float32
        )
        groups = [KVCacheGroupSpec(["layer.0"], attention)]
        if num_state_groups:
            config.cache_config.mamba_cache_mode = "align"
            config.cache_config.mamba_block_size = BLOCK_TOKENS
            state = MambaSpec(
                block_size=BLOCK_TOKENS,
                shapes=((BLOCK_TOKENS * 2,),),
                dtypes=(torch.float32,),
                mamba_cache_mode="align",
            )
            groups += [KVCacheGroupSpec([f"state.{n}"], state) for n in range(num_state_groups)]
        cache = KVCacheConfig(num_blocks=POOL_BLOCKS, kv_cache_tensors=[], kv_cache_groups=groups)
        block_size, hash_block_size = resolve_kv_cache_block_sizes(cache, config)
        hash_function = get_hash_fn_by_name("sha256")
        init_none_hash(hash_function)
        self._block_hasher = get_request_block_hasher(hash_block_size, hash_function)
        self._scheduler = Scheduler(
            vllm_config=config,
            kv_cache_config=cache,
            structured_output_manager=StructuredOutputManager(config),
            block_size=block_size,
            hash_block_size=hash_block_size,
            log_stats=True,
        )

    def run(self, name: str, prompt: list[int], num_output_tokens: int) -> Turn:
        """Serve one prompt to its end and count what had to be computed for it."""
        from vllm.sampling_params import SamplingParams
        from vllm.v1.outputs import ModelRunnerOutput
        from vllm.v1.request import Request

        request = Request(
            request_id=name,
            prompt_token_ids=prompt,
            sampling_params=SamplingParams(max_tokens=num_output_tokens, ignore_eos=True),
            pooling_params=None,
            block_hasher=self._block_hasher,
        )
        self._scheduler.add_request(request)
        cached_tokens = computed_tokens = 0
        while not request.is_finished():
            scheduled = self._scheduler.schedule()
            for admitted in scheduled.scheduled_new_reqs:
                cached_tokens = admitted.num_computed_tokens
            computed_tokens += scheduled.num_scheduled_tokens[name]
            prefill_is_done = request.num_computed_tokens >= request.num_tokens
            self._scheduler.update_from_output(
                scheduled,
                ModelRunnerOutput(
                    req_ids=[name],
                    req_id_to_index={name: 0},
                    sampled_token_ids=[[7] if prefill_is_done else []],
                ),
            )
        return Turn(
            prompt=prompt,
            output=list(request.output_token_ids),
            cached_tokens=cached_tokens,
            computed_tokens=computed_tokens,
        )


@pytest.fixture
def make_engine(tmp_path: Path) -> Callable[..., VirtualEngine]:
    (tmp_path / "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
    return lambda num_state_groups=0: VirtualEngine(tmp_path, num_state_groups)


def _whole_blocks(num_tokens: int) -> int:
    return num_tokens // BLOCK_TOKENS * BLOCK_TOKENS


def test_second_turn_finds_the_whole_first_turn_up_to_the_last_full_block(make_engine):
    engine = make_engine()
    first = engine.run("turn-0", list(range(100, 300)), num_output_tokens=11)
    assert first.cached_tokens == 0

    # The last sampled token was never fed back, so its own keys and values are not in the cache.
    history = first.prompt + first.output
    second = engine.run("turn-1", history + list(range(300, 350)), num_output_tokens=3)

    expected = _whole_blocks(len(history) - 1)
    assert second.cached_tokens == expected == 208
    # 3 sampled tokens take 2 steps after the one that ends the prefill.
    assert second.computed_tokens == len(second.prompt) - expected + 2


def test_a_token_changed_early_in_the_history_loses_everything_after_it(make_engine):
    engine = make_engine()
    first = engine.run("turn-0", list(range(100, 300)), num_output_tokens=11)

    rewritten = first.prompt + first.output + list(range(300, 350))
    rewritten[BLOCK_TOKENS] = 99
    second = engine.run("turn-1", rewritten, num_output_tokens=3)

    assert second.cached_tokens == BLOCK_TOKENS


@pytest.mark.parametrize("num_state_groups", [0, 3])
def test_every_turn_of_an_undisturbed_episode_is_found_up_to_the_ledger_s_boundary(
    make_engine, num_state_groups
):
    engine = make_engine(num_state_groups)
    # Prompts and outputs around the edges of a block, alone and together.
    turns = [
        (1, 1),
        (15, 1),
        (16, 2),
        (17, 16),
        (1, 15),
        (30, 17),
        (47, 1),
        (5, 33),
        (96, 8),
        (1, 1),
    ]
    history: list[int] = []
    for number, (num_new, num_output) in enumerate(turns):
        prompt = history + [100 + number] * num_new
        turn = engine.run(f"turn-{number}", prompt, num_output)

        assert turn.cached_tokens == full_prefix_boundary(len(history), BLOCK_TOKENS)
        history = prompt + turn.output
