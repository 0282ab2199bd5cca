"""`python -m server cliff --engine tiny`: the cliff on a real engine, seen from outside."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from robot_sdk.api.v1 import fleet_pb2
from robot_sdk.client import Client, connect
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import RobotSdkError
from robot_sdk.operator_access import Fleet, connect_fleet
from server.brain.tiny_model import write_tiny_text_model
from server.capacity.cliff import tiny_report, tiny_server
from server.capacity.cliff.carousel import Carousel, Load
from server.capacity.cliff.ledger_counters import read_ledger
from server.capacity.cliff.tiny_report import Phase
from server.core.capacity import KvPool
from server.launch.server_process import ServerProcess

EXIT_OTHER_CLIFF = 3

#: Contexts start at about 660 tokens, 21 blocks of 32, and grow by one block a visit: 255 blocks
#: hold 10 at their end. With 14 the first prefixes are gone before the first revisit.
BELOW, ABOVE = 8, 14
_BETWEEN = (9, 10, 11, 12, 13)
_FIRST_WORDS, _VISIT_WORDS, _NUM_VISITS = 315, 1, 3
_CALL_TIMEOUT_S = 10.0
_DOOR_TIMEOUT_S = 60.0
_POLL_S = 0.05


def run(args: argparse.Namespace) -> int:
    """Start a server, run the loads, print and write; returns the exit code.

    Raises:
        RobotSdkError: The server does not start or a turn fails.
        MissingExtraError: A picture is asked for and matplotlib is not installed.
        OSError: A file cannot be written.
    """
    started_s = SYSTEM_CLOCK.now_s()
    with tempfile.TemporaryDirectory(prefix="cliff-tiny-") as name:
        folder = Path(name)
        model = write_tiny_text_model(folder / "model")
        sys.stderr.write("starting a server with a tiny model...\n")
        server = ServerProcess(
            tiny_server.settings(model),
            args.out or folder,
            tiny_server.ENVIRONMENT,
            tiny_server.START_TIMEOUT_S,
        )
        with server, connect_fleet(server.target) as fleet:
            start_s = SYSTEM_CLOCK.now_s() - started_s
            client = connect(server.target)
            try:
                phases = list(_phases(server, fleet, client, args.quick))
                pool = _pool(fleet)
            finally:
                client.close()
    wall_s = SYSTEM_CLOCK.now_s() - started_s
    sys.stdout.write(tiny_report.render(phases, pool, start_s, wall_s) + "\n")
    if args.out is not None:
        content = json.dumps(tiny_report.to_json(phases, pool, start_s, wall_s), indent=2)
        (args.out / "cliff-tiny.json").write_text(content + "\n", encoding="utf-8")
        tiny_report.draw(phases, pool, args.out / "cliff-tiny.png")
        sys.stdout.write(f"\nwritten: {args.out / 'cliff-tiny.json'} and cliff-tiny.png\n")
    return _verdict(phases)


def _phases(server: ServerProcess, fleet: Fleet, client: Client, is_quick: bool) -> Iterator[Phase]:
    between = () if is_quick else _BETWEEN
    loads: list[tuple[int, int | None]] = [(count, None) for count in (BELOW, *between, ABOVE)]
    loads.append((ABOVE, BELOW))
    block_tokens = _pool(fleet).block_tokens
    for num_robots, cap in loads:
        _set_cap(fleet, cap)
        load = Load(num_robots, _NUM_VISITS, _FIRST_WORDS, _VISIT_WORDS)
        carousel = Carousel(client, load, cap, block_tokens, f"{num_robots}-{cap or 'all'}")
        before, started_s = read_ledger(server.log_path), SYSTEM_CLOCK.now_s()
        carousel.enter()
        door = _door(fleet, num_robots)
        tally = carousel.run()
        yield Phase(
            num_robots=num_robots,
            cap=cap,
            num_inside=door.active_episodes,
            num_waiting=door.queued_episodes,
            ledger=read_ledger(server.log_path).since(before),
            tally=tally,
            wall_s=SYSTEM_CLOCK.now_s() - started_s,
        )
        sys.stderr.write(
            f"{num_robots} robots, {'no cap' if cap is None else f'cap {cap}'}: done\n"
        )


def _verdict(phases: list[Phase]) -> int:
    """0 if the cliff is where it must be, otherwise 3 and a word on stderr."""
    below = [p for p in phases if p.cap is not None or p.num_robots == BELOW]
    above = [p for p in phases if p.cap is None and p.num_robots == ABOVE]
    wrong = [phase for phase in below if phase.ledger.survival != 1.0]
    wrong += [phase for phase in above if phase.ledger.survival != 0.0]
    for phase in wrong:
        sys.stderr.write(
            f"error: {phase.name} has a survival of {phase.ledger.survival}, where "
            f"{'0.0' if phase in above else '1.0'} must be seen\n"
        )
    for phase in phases:
        if not phase.agrees:
            wrong.append(phase)
            sys.stderr.write(
                f"error: {phase.name}: the ledger counted {phase.ledger}, robots {phase.tally}\n"
            )
    return EXIT_OTHER_CLIFF if wrong else 0


def _set_cap(fleet: Fleet, cap: int | None) -> None:
    fleet.stub.SetCap(
        fleet_pb2.SetCapRequest(cap=cap), timeout=_CALL_TIMEOUT_S, metadata=fleet.metadata
    )


def _status(fleet: Fleet) -> fleet_pb2.FleetStatus:
    return fleet.stub.Status(
        fleet_pb2.StatusRequest(), timeout=_CALL_TIMEOUT_S, metadata=fleet.metadata
    ).status


def _door(fleet: Fleet, num_robots: int) -> fleet_pb2.AdmissionStatus:
    """The door once everybody is inside or waits."""
    give_up_s = SYSTEM_CLOCK.now_s() + _DOOR_TIMEOUT_S
    while True:
        door = _status(fleet).admission
        if door.active_episodes + door.queued_episodes >= num_robots:
            return door
        if SYSTEM_CLOCK.now_s() >= give_up_s:
            raise RobotSdkError(
                f"only {door.active_episodes} inside and {door.queued_episodes} at the door of "
                f"{num_robots} robots after {_DOOR_TIMEOUT_S:.0f} s"
            )
        SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + _POLL_S)


def _pool(fleet: Fleet) -> KvPool:
    give_up_s = SYSTEM_CLOCK.now_s() + _DOOR_TIMEOUT_S
    # The server looks at its engine's gauges at intervals, and has only just started.
    while not (load := _status(fleet).brain.load).HasField("pool_blocks"):
        if SYSTEM_CLOCK.now_s() >= give_up_s:
            raise RobotSdkError("the server does not tell the size of its KV pool")
        SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + _POLL_S)
    return KvPool(load.pool_blocks, load.block_tokens)
