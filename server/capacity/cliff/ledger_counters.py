"""The server's prefix ledger, read from outside: its counters on the metrics page."""

from __future__ import annotations

import http.client
import re
from dataclasses import dataclass
from pathlib import Path

from robot_sdk.errors import RobotSdkError

_PAGE = re.compile(r"metrics on http://([^:\s]+):(\d+)")
#: Turns by outcome. Counted at the commit, where the page's gauges are up to a second old.
_COUNTER = "robot_turn_service_seconds_count"
_TURNS = re.compile(rf'^{_COUNTER}\{{outcome="(\w+)"\}} ([0-9.e+]+)$', re.MULTILINE)
_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class LedgerCount:
    """Turns with a prefix to lose, since the server started or between two readings."""

    hits: int
    misses: int

    def since(self, earlier: LedgerCount) -> LedgerCount:
        """What came after `earlier`."""
        return LedgerCount(self.hits - earlier.hits, self.misses - earlier.misses)

    @property
    def survival(self) -> float | None:
        """Share of hits; None: nothing was counted."""
        counted = self.hits + self.misses
        return self.hits / counted if counted else None


def read_ledger(server_log: Path) -> LedgerCount:
    """Read the counters of a server that was started with telemetry.prometheus_port = 0.

    Args:
        server_log: Where the server says its page's address.

    Raises:
        RobotSdkError: There is no page, or no such counters on it.
    """
    page = _PAGE.search(server_log.read_text(encoding="utf-8", errors="replace"))
    if page is None:
        raise RobotSdkError(f"the server has no metrics page; see {server_log}")
    connection = http.client.HTTPConnection(page[1], int(page[2]), timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode("utf-8")
    except (OSError, http.client.HTTPException) as error:
        raise RobotSdkError(f"the metrics page of the server cannot be read: {error}") from error
    finally:
        connection.close()
    return parse_ledger(text)


def parse_ledger(metrics: str) -> LedgerCount:
    """The counters in the text of a metrics page.

    Raises:
        RobotSdkError: There are none.
    """
    turns = {outcome: int(float(count)) for outcome, count in _TURNS.findall(metrics)}
    if "hit" not in turns or "miss" not in turns:
        raise RobotSdkError(f"the metrics page has no {_COUNTER} of hits and misses")
    return LedgerCount(turns["hit"], turns["miss"])
