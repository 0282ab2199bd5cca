"""The metrics page in this process, over many episodes and for every histogram."""

from __future__ import annotations

import itertools
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from robot_sdk.api.v1 import common_pb2, episode_pb2
from robot_sdk.clock import VirtualClock
from robot_sdk.messages import TokenUsage
from robot_sdk.telemetry import no_telemetry
from server.brain.interface import EngineInfo, EngineLoad
from server.config import EpisodesSection, TelemetrySection
from server.core.admission import StaticCapAdmission
from server.core.leases import EpisodeInfo, LeaseTable
from server.core.registry import EpisodeRegistry
from server.core.residency import EngineGauges, PrefixOutcome
from server.metrics import PrometheusPage
from server.rpc.hub import EpisodeHub
from server.rpc.services import BrainTotals, Services


class FakeBrain:
    """What the page reads of an engine."""

    info = EngineInfo(engine="fake", model="fake-1", pool_blocks=1000, block_tokens=16)
    load = EngineLoad(kv_cache_usage=0.25, prompt_tokens_total=7)
    num_running = 0
    num_waiting = 0


class Page:
    def __init__(self) -> None:
        ids = (f"id-{n}" for n in itertools.count())
        self.clock = VirtualClock()
        self.registry = EpisodeRegistry(
            LeaseTable(10.0, "boot", lambda: next(ids)), StaticCapAdmission(None)
        )
        self.hub = EpisodeHub(
            self.registry,
            EpisodesSection(),
            "boot",
            self.clock,
            no_telemetry(),
            engine_gauges=lambda: EngineGauges(pool_blocks=1000, block_tokens=16),
        )
        section = TelemetrySection(prometheus_port=0)
        self.page = PrometheusPage(section, self.hub, Services(FakeBrain(), {}, BrainTotals()))  # type: ignore[arg-type]

    def series(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        url = f"http://127.0.0.1:{self.page.port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as response:
            text = response.read().decode()
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            # Created-at stamps of prometheus_client.
            if not sample.name.endswith("_created")
        }


@pytest.fixture
def page() -> Iterator[Page]:
    page = Page()
    yield page
    page.page.close()


def test_e5_five_hundred_robots_add_no_series(page: Page) -> None:
    page.hub.step()
    before = set(page.series())

    for number in range(500):
        info = EpisodeInfo(
            f"open-{number}",
            tenant=f"tenant-{number}",
            robot_id=f"robot-{number}",
            task_family=f"family-{number}",
            task=f"task {number}",
            uses_brain=True,
        )
        live, attachment, _ = page.hub.open(info, common_pb2.TraceContext())
        usage = TokenUsage(input_tokens=500, cached_tokens=0, output_tokens=5)
        for _ in range(2):
            page.registry.record_turn(live.episode_id, usage, page.clock.now_s())
        page.page.observe_turn(PrefixOutcome.MISS, 0.1)
        if number < 400:
            page.hub.end_by_robot(attachment, episode_pb2.EndEpisode())
        page.clock.advance(0.01)
    page.clock.advance(2.0)
    page.hub.step()

    assert set(page.series()) == before
    assert page.series()["robot_prefix_turns_total", frozenset({("outcome", "miss")})] == 500


def test_unknown_values_are_no_zeros(page: Page) -> None:
    series = page.series()

    hit = series["robot_prefix_full_prefix_hit", frozenset()]
    assert hit != hit  # NaN
    assert series["robot_engine_kv_cache_usage", frozenset()] == 0.25
    assert series["robot_engine_prompt_tokens_total", frozenset()] == 7
    generated = series["robot_engine_generated_tokens_total", frozenset()]
    assert generated != generated


def test_refreshes_are_counted_by_what_the_engine_had(page: Page) -> None:
    ledger = page.registry.ledger
    for name in ("a", "b", "c"):
        ledger.begin_episode(name, "")
        ledger.record_turn(name, TokenUsage(input_tokens=500, output_tokens=5), 0.0)
    due = ledger.due_refreshes(0, 0.0)
    assert len(due) == 2
    for episode_id, found in zip(due, (True, False), strict=True):
        ledger.end_refresh(episode_id, found, 0.0)
    page.clock.advance(2.0)
    page.hub.step()

    series = page.series()

    for outcome in ("found", "lost"):
        assert series["robot_prefix_refreshes_total", frozenset({("outcome", outcome)})] == 1


OBSERVE: dict[str, Callable[[PrometheusPage, float], None]] = {
    "robot_chunk_service_seconds": lambda page, value_s: page.observe_chunk("flow", value_s),
    "robot_turn_service_seconds": lambda page, value_s: page.observe_turn(
        PrefixOutcome.HIT, value_s
    ),
}


@pytest.mark.parametrize("name", OBSERVE)
def test_e4_seconds_fall_into_second_scaled_buckets(page: Page, name: str) -> None:
    for value_s in (0.010, 0.050, 0.200, 1.5):
        OBSERVE[name](page.page, value_s)

    # Upper bound of each bucket and how many lie at or below it.
    counts = sorted(
        (float(dict(labels)["le"]), value)
        for (series, labels), value in page.series().items()
        if series == f"{name}_bucket" and dict(labels).get("outcome", "hit") == "hit"
    )
    filled = [
        bound
        for (_, below), (bound, upto) in itertools.pairwise([(0.0, 0.0), *counts])
        if upto > below
    ]
    assert filled == [0.01, 0.05, 0.25, 2.5]


def test_e4_every_histogram_of_the_page_is_checked(page: Page) -> None:
    for observe in OBSERVE.values():
        observe(page.page, 0.1)

    histograms = {
        series.removesuffix("_bucket") for series, _ in page.series() if series.endswith("_bucket")
    }
    assert histograms == set(OBSERVE)
