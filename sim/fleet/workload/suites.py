"""What the study says of its four suites, and the constants fitted to it."""

from __future__ import annotations

from dataclasses import dataclass

NUM_TASKS = 10
SEEDS_PER_TASK = 2
EPISODES_PER_SUITE = NUM_TASKS * SEEDS_PER_TASK
CONTROL_HZ = 20.0


@dataclass(frozen=True)
class Suite:
    """One suite of the study. Medians are of an episode.

    Attributes:
        family: Its name here, as `python -m sim run --suite` has it.
        study_name: Its name in the study's table.
        successes: Of 20.
        turns, peak_context, total_input, chunks, env_advance_s: The table's medians.
        calls_per_sim_s: Brain calls over seconds of robot time, all episodes together.
        total_turns: Fitted: of all 20 episodes. The four add up to 1,862 and, with
            `calls_per_sim_s`, to the study's 2,309 s within 0.1%.
        total_chunks: Fitted: add up to 1,582; means over medians alike in all suites.
        turn_spread, env_spread, chunk_spread: Fitted: spread of the logarithm under the median,
            so that the medians over all 80 come out too. Over it the spread follows from the sum.
        early_context: Fitted to `total_input`: first guess of the prompt at turn 5; "about 60k"
            in the study.
    """

    family: str
    study_name: str
    successes: int
    turns: float
    peak_context: float
    total_input: float
    chunks: float
    env_advance_s: float
    calls_per_sim_s: float
    total_turns: int
    total_chunks: int
    turn_spread: float
    env_spread: float
    chunk_spread: float
    early_context: float

    @property
    def total_env_s(self) -> float:
        """Robot time of all its episodes."""
        return self.total_turns / self.calls_per_sim_s


#: In the study's order.
SUITES = (
    Suite(
        "libero_object_swap", "object_swap", 19, 17.0, 89_500, 1_070_000, 8, 16.1, 1.010,
        total_turns=348, total_chunks=220,
        turn_spread=0.08, env_spread=0.12, chunk_spread=0.3, early_context=53_500,
    ),
    Suite(
        "libero_spatial_swap", "spatial_swap", 20, 18.5, 91_100, 1_270_000, 8, 14.9, 1.141,
        total_turns=374, total_chunks=210,
        turn_spread=0.08, env_spread=0.12, chunk_spread=0.3, early_context=62_000,
    ),
    Suite(
        "libero_goal_swap", "goal_swap", 19, 19.0, 95_500, 1_320_000, 15, 21.8, 0.820,
        total_turns=394, total_chunks=380,
        turn_spread=0.08, env_spread=0.4, chunk_spread=0.6, early_context=58_500,
    ),
    Suite(
        "libero_10_swap", "10_swap", 16, 33.5, 136_300, 3_050_000, 27, 44.0, 0.640,
        total_turns=746, total_chunks=772,
        turn_spread=0.16, env_spread=0.5, chunk_spread=0.6, early_context=60_000,
    ),
)  # fmt: skip
