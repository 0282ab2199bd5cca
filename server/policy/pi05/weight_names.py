"""Names of weights: those of the public PyTorch checkpoints, and ours.

The public ones are of two kinds. Checkpoints converted with openpi begin with
`paligemma_with_expert.` or the name of a projection; lerobot puts `model.` in front. Releases of
transformers differ in whether `vision_tower.` is followed by `vision_model.`. All of them map to
the names of `Pi05Model`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from server.policy.pi05.config import Pi05Config

_PALIGEMMA = "paligemma_with_expert.paligemma."
_VISION = f"{_PALIGEMMA}model.vision_tower."
_LANGUAGE = f"{_PALIGEMMA}model.language_model."
_EXPERT = "paligemma_with_expert.gemma_expert."

#: The word embeddings, which double as the output layer: a file may hold them under either name.
EMBEDDING = "prefix.embed_tokens.weight"
_TIED_EMBEDDING = f"{_PALIGEMMA}lm_head.weight"

#: Beginnings, longest first; what they become.
_PREFIXES = (
    (f"{_VISION}embeddings.", "vision."),
    (f"{_VISION}encoder.layers.", "vision.layers."),
    (f"{_VISION}post_layernorm.", "vision.post_layernorm."),
    (f"{_PALIGEMMA}model.multi_modal_projector.linear.", "vision.projector."),
    (_LANGUAGE, "prefix."),
    (f"{_EXPERT}model.", "expert."),
    ("action_in_proj.", "expert.action_in_proj."),
    ("action_out_proj.", "expert.action_out_proj."),
    ("time_mlp_in.", "expert.time_mlp_in."),
    ("time_mlp_out.", "expert.time_mlp_out."),
)
#: Levels of SigLIP's names that our tower does not have.
_VISION_LEVELS = re.compile(r"^(vision\.layers\.\d+)\.(?:self_attn|mlp)\.")


def our_name(name: str) -> str:
    """Our name of a weight of a checkpoint; a name that is not known comes back unchanged."""
    plain = name.removeprefix("model.").replace(".vision_tower.vision_model.", ".vision_tower.")
    if plain == _TIED_EMBEDDING:
        return EMBEDDING
    for prefix, ours in _PREFIXES:
        if plain.startswith(prefix):
            return _VISION_LEVELS.sub(r"\1.", ours + plain[len(prefix) :])
    return name


def public_name(ours: str) -> str:
    """The name that openpi's converter writes for one of ours."""
    if match := re.match(r"^vision\.layers\.\d+\.", ours):
        rest = ours[match.end() :]
        level = {"q": "self_attn.", "k": "self_attn.", "v": "self_attn.", "o": "self_attn."}
        rest = level.get(rest[0], "mlp." if rest.startswith("fc") else "") + rest
        ours = match.group() + rest
    # The other way round the longest beginning is the right one, too.
    for prefix, beginning in sorted(_PREFIXES, key=lambda pair: -len(pair[1])):
        if ours.startswith(beginning):
            name = prefix + ours[len(beginning) :]
            return name.replace(".vision_tower.", ".vision_tower.vision_model.")
    raise ValueError(ours)


def unused_shapes(config: Pi05Config) -> dict[str, tuple[int, ...]]:
    """Weights that checkpoints hold and inference never reads, by our name, with their shape.

    The prefix's last layer past its keys and values, its final normalisation, and the expert's
    output layer for words. They may be there or not; of another shape they are refused, for then
    the file belongs to another model.
    """
    prefix, expert = config.prefix, config.expert
    heads = prefix.num_heads * prefix.head_dim
    last = f"prefix.layers.{prefix.depth - 1}"
    return {
        f"{last}.self_attn.q_proj.weight": (heads, prefix.width),
        f"{last}.self_attn.o_proj.weight": (prefix.width, heads),
        f"{last}.post_attention_layernorm.weight": (prefix.width,),
        f"{last}.mlp.gate_proj.weight": (prefix.mlp_width, prefix.width),
        f"{last}.mlp.up_proj.weight": (prefix.mlp_width, prefix.width),
        f"{last}.mlp.down_proj.weight": (prefix.width, prefix.mlp_width),
        "prefix.norm.weight": (prefix.width,),
        f"{_EXPERT}lm_head.weight": (config.vocabulary_size, expert.width),
    }


def normal_unused_name(name: str) -> str:
    """`our_name`, with the one unused weight that has no name of ours brought to one spelling."""
    ours = our_name(name)
    return ours.removeprefix("model.") if ours.endswith(f"{_EXPERT}lm_head.weight") else ours


def shorten(names: Iterable[str], most: int = 5) -> str:
    """Some names for a message, and how many more there are."""
    ordered = sorted(names)
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(ordered[:most]) + more
