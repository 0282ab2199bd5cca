"""One server process: builds everything, serves, drains, stops."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import signal
from collections.abc import Callable
from pathlib import Path

import grpc

from robot_sdk.clock import SYSTEM_CLOCK, Clock, pause
from robot_sdk.telemetry import Telemetry, no_telemetry, start
from server.brain.build import build_brain
from server.config import Config, ConfigError
from server.core.residency import PrefixOutcome
from server.door import build_hub, engine_gauges
from server.door_check import warn_of_door
from server.metrics import PrometheusPage
from server.policy.build import build_policy
from server.policy.driver import PolicyDriver
from server.rpc import front_end
from server.rpc.auth import Authenticator, check_exposure, load_tokens, warn_of_plain_tokens
from server.rpc.brain_service import BrainServicer
from server.rpc.control_service import ControlServicer
from server.rpc.episode_service import EpisodeServicer
from server.rpc.fleet_service import FleetServicer
from server.rpc.health import HealthUpdater
from server.rpc.hub import EpisodeHub
from server.rpc.policy_service import PolicyServicer
from server.rpc.services import BrainTotals, Services
from server.sections.policy import PolicySection

_log = logging.getLogger(__name__)

_BOOKKEEPING_S = 0.1
#: After the drain, time for streams to carry their last message.
_GOODBYE_S = 0.5
_TELEMETRY_S = 4.0


class LoadError(Exception):
    """A model worker cannot load. The message is one line."""


class App:
    """The parts of a server and their order of coming and going.

    Raises:
        ConfigError, PortInUseError: From `serve`, before anything is served.
        LoadError: From `serve`, when a model cannot be loaded at start.
    """

    def __init__(self, config: Config, clock: Clock = SYSTEM_CLOCK) -> None:
        self._config = config
        self._clock = clock
        self.boot_id = secrets.token_hex(8)
        self._stop_now = asyncio.Event()
        self._draining = asyncio.Event()
        self._page: PrometheusPage | None = None

    async def serve(self, on_ready: Callable[[int], None]) -> None:
        """Serve until drained or told to stop; `on_ready` gets the port once models are loaded."""
        config = self._config
        authenticator = Authenticator(load_tokens(config.auth))
        check_exposure(config.server.host, authenticator, config.auth.allow_anonymous)
        warn_of_plain_tokens(config.server.host, authenticator, bool(config.tls.certificate_file))
        telemetry = self._telemetry()
        services = self._services()
        hub = self._hub(services, telemetry)
        health = HealthUpdater(hub, services)
        server, port = self._front_end(hub, services, health, authenticator, telemetry)
        self._install_signals(hub)
        tasks: list[asyncio.Task[None]] = []
        try:
            self._page = self._metrics_page(hub, services)
            await health.update()
            await server.start()
            tasks.append(asyncio.create_task(hub.tick_forever()))
            tasks.append(asyncio.create_task(self._keep_books(hub, services, health)))
            _log.info("listening on %s:%d, boot id %s", config.server.host, port, self.boot_id)
            await self._load(services)
            warn_of_door(config.admission, engine_gauges(config.admission, services.brain))
            await health.update()
            if not self._stop_now.is_set():
                on_ready(port)
            await self._stop_now.wait()
        finally:
            await self._shut_down(server, hub, services, tasks, telemetry)

    def begin_drain(self, hub: EpisodeHub, deadline_s: float, reason: str) -> None:
        """No new episodes; the process stops when those inside have ended or the time is up."""
        hub.begin_drain(deadline_s, reason)
        self._draining.set()

    @property
    def _has_traces(self) -> bool:
        section = self._config.telemetry
        return bool(section.run_folder or section.otlp_endpoint)

    def _telemetry(self) -> Telemetry:
        section = self._config.telemetry
        if not self._has_traces:
            return no_telemetry()
        return start(section.service, section.run_folder or None, section.otlp_endpoint or None)

    def _hub(self, services: Services, telemetry: Telemetry) -> EpisodeHub:
        def on_turn(outcome: PrefixOutcome, latency_s: float) -> None:
            if self._page is not None:
                self._page.observe_turn(outcome, latency_s)

        return build_hub(
            self._config,
            services.brain,
            boot_id=self.boot_id,
            clock=self._clock,
            telemetry=telemetry,
            on_turn=on_turn,
        )

    def _services(self) -> Services:
        config = self._config
        brain = build_brain(config, self._clock) if "brain" in config.server.roles else None
        policies = {}
        if "policy" in config.server.roles:
            policies = {name: self._policy(name, s) for name, s in config.policies.items()}
        return Services(brain, policies, BrainTotals())

    def _policy(self, name: str, section: PolicySection) -> PolicyDriver:
        def on_chunk(service_s: float) -> None:
            if self._page is not None:
                self._page.observe_chunk(name, service_s)

        return build_policy(
            name,
            section,
            max_message_bytes=self._config.server.max_message_bytes,
            clock=self._clock,
            on_chunk=on_chunk,
        )

    def _front_end(
        self,
        hub: EpisodeHub,
        services: Services,
        health: HealthUpdater,
        authenticator: Authenticator,
        telemetry: Telemetry,
    ) -> tuple[grpc.aio.Server, int]:
        config, clock = self._config, self._clock
        return front_end.build(
            config,
            authenticator,
            control=ControlServicer(hub, services, config, clock),
            episodes=EpisodeServicer(hub, services, authenticator, clock),
            brain=BrainServicer(hub, services, clock, telemetry, config.episodes.max_turns),
            policy=PolicyServicer(hub, services, clock, telemetry if self._has_traces else None),
            fleet=FleetServicer(
                hub,
                services,
                clock,
                clock.now_s(),
                lambda deadline_s, reason: self.begin_drain(hub, deadline_s, reason),
            ),
            health=health,
        )

    def _metrics_page(self, hub: EpisodeHub, services: Services) -> PrometheusPage | None:
        section = self._config.telemetry
        if section.prometheus_port is None:
            return None
        try:
            return PrometheusPage(section, hub, services)
        except ImportError as error:
            raise ConfigError(
                f"telemetry.prometheus_port needs {error.name}; run: pip install -e '.[server]'"
            ) from error
        except OSError as error:
            raise front_end.PortInUseError(
                f"cannot listen on {section.prometheus_host}:{section.prometheus_port} "
                f"(telemetry.prometheus_port): {error.strerror}"
            ) from error

    async def _load(self, services: Services) -> None:
        engines = services.engines
        for engine in engines:
            await engine.start()
        loading = asyncio.gather(*(engine.loaded() for engine in engines))
        stopping = asyncio.ensure_future(self._stop_now.wait())
        done, _ = await asyncio.wait(
            (loading, stopping),
            timeout=self._config.server.load_timeout_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
        stopping.cancel()
        if loading not in done:
            loading.cancel()
            if not done:
                raise LoadError(
                    f"models were not loaded within {self._config.server.load_timeout_s} s "
                    "(server.load_timeout_s)"
                )
            return
        try:
            loading.result()
        except RuntimeError as error:
            raise LoadError(str(error)) from error

    def _install_signals(self, hub: EpisodeHub) -> None:
        loop = asyncio.get_running_loop()

        def on_signal(name: str) -> None:
            if self._draining.is_set():
                _log.warning("%s again: stopping at once", name)
                self._stop_now.set()
                return
            self.begin_drain(hub, self._config.server.drain_deadline_s, name)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal, number.name)

    async def _keep_books(self, hub: EpisodeHub, services: Services, health: HealthUpdater) -> None:
        """What is due by the clock: late observations, health, the end of a drain."""
        while True:
            try:
                for policy in services.policies.values():
                    policy.step()
                await health.update()
                drain = hub.drain
                if drain is not None and drain.is_over(
                    self._clock.now_s(), len(hub.registry.active())
                ):
                    self._stop_now.set()
            except Exception:
                _log.exception("bookkeeping failed")
            await pause(_BOOKKEEPING_S)

    async def _shut_down(
        self,
        server: grpc.aio.Server,
        hub: EpisodeHub,
        services: Services,
        tasks: list[asyncio.Task[None]],
        telemetry: Telemetry,
    ) -> None:
        hub.end_all()
        await server.stop(_GOODBYE_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(
            *(engine.stop() for engine in services.engines), return_exceptions=True
        )
        if self._page is not None:
            self._page.close()
        await asyncio.to_thread(telemetry.shutdown, _TELEMETRY_S)
        _log.info("stopped")


def write_ready_file(path: Path, host: str, port: int, boot_id: str) -> None:
    """Tell a parent process where the server is, in one atomic step."""
    text = json.dumps({"host": host, "port": port, "pid": os.getpid(), "boot_id": boot_id})
    part = path.with_name(path.name + ".part")
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(path)
