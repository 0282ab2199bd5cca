"""Who holds a place on this server: queued and admitted episodes, their leases and their streams.

An episode is identified by an id that the server makes and never gives out twice. It lives as long
as heartbeats come; one that misses them for a lease time is expired, wherever it stands. A newer
stream of the same episode fences the older one. Ended episodes leave a tombstone, so that a late
message is answered with what happened and never brings an episode back.
"""

from __future__ import annotations

import enum
import hmac
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from robot_sdk.errors import (
    ContextLimitError,
    EpisodeEndedError,
    EpisodeLostError,
    EpisodeUnknownError,
    FencedError,
    LeaseExpiredError,
    RobotSdkError,
    UnauthenticatedError,
)


class Phase(enum.Enum):
    """Where a living episode stands."""

    QUEUED = "queued"
    ADMITTED = "admitted"


class EndCause(enum.Enum):
    """Why an episode is no more."""

    ENDED_BY_ROBOT = "ended by its robot"
    LEASE_EXPIRED = "lease expired"
    ENDED_BY_OPERATOR = "ended by an operator"
    MAX_DURATION = "ran longer than episodes.max_duration_s"
    CONTEXT_LIMIT = "its conversation reached the model's context limit"
    SHUTDOWN = "server shut down"
    FAULT = "a fault of the server"
    BRAIN_LOST = "the process of its brain died, and its conversation is gone"


@dataclass(frozen=True)
class EpisodeInfo:
    """What a robot said when it asked for admission. `tenant` comes from its token."""

    open_id: str
    tenant: str = ""
    robot_id: str = ""
    embodiment: str = ""
    run_id: str = ""
    task: str = ""
    task_family: str = ""
    seed: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    control_hz: float = 0.0
    policies: tuple[str, ...] = ()
    uses_brain: bool = False


@dataclass
class Episode:
    """One living episode. Changed only by the LeaseTable.

    Attributes:
        lease_until_s: The lease ends when this moment has passed without a heartbeat.
        stream: Number of the newest Run stream; 0 is none yet. Older ones are fenced.
        epoch: 1 at admission, one more for every stream attached after it; 0 while queued.
        connected: Whether the newest stream is attached.
    """

    episode_id: str
    secret: str = field(repr=False)
    info: EpisodeInfo
    phase: Phase
    opened_s: float
    lease_until_s: float
    stream: int = 0
    epoch: int = 0
    connected: bool = False
    admitted_s: float | None = None

    def queued_s(self, now_s: float) -> float:
        """Seconds spent at the door, so far or until admission."""
        return (now_s if self.admitted_s is None else self.admitted_s) - self.opened_s


@dataclass(frozen=True)
class Attachment:
    """One Run stream's hold on one episode."""

    episode_id: str
    stream: int


@dataclass(frozen=True)
class Reference:
    """What a call says about its episode: EpisodeRef as plain values."""

    episode_id: str
    secret: str = field(repr=False)
    epoch: int
    boot_id: str


def ended_error(episode_id: str, cause: EndCause) -> RobotSdkError:
    """The error for a call to an episode that is no more."""
    if cause is EndCause.LEASE_EXPIRED:
        return LeaseExpiredError(
            "no heartbeat came within the lease time, so the episode was ended",
            field="episode_id",
            value=episode_id,
            hint="start a new episode",
        )
    if cause is EndCause.BRAIN_LOST:
        return EpisodeLostError(
            f"the episode has ended: {cause.value}",
            field="episode_id",
            value=episode_id,
            hint="start a new episode",
        )
    if cause is EndCause.CONTEXT_LIMIT:
        return ContextLimitError(
            f"the episode has ended: {cause.value}",
            field="episode_id",
            value=episode_id,
            hint="start a new episode",
        )
    return EpisodeEndedError(
        f"the episode has ended: {cause.value}",
        field="episode_id",
        value=episode_id,
        hint="start a new episode",
    )


class LeaseTable:
    """All living episodes of one server process.

    Args:
        ttl_s: Lease time, seconds.
        boot_id: Id of this server process; a reference with another one is EPISODE_LOST.
        make_id: Makes a new unguessable id at every call (episode ids and secrets).
        max_tombstones: Ended episodes that are remembered by name. Older ones are answered with
            EPISODE_UNKNOWN.
    """

    def __init__(
        self,
        ttl_s: float,
        boot_id: str,
        make_id: Callable[[], str],
        max_tombstones: int = 100_000,
    ) -> None:
        self._ttl_s = ttl_s
        self._boot_id = boot_id
        self._make_id = make_id
        self._max_tombstones = max_tombstones
        self._episodes: dict[str, Episode] = {}
        self._by_open_id: dict[tuple[str, str], str] = {}
        self._tombstones: OrderedDict[str, EndCause] = OrderedDict()
        self._ended_open_ids: OrderedDict[tuple[str, str], str] = OrderedDict()

    def __iter__(self) -> Iterator[Episode]:
        return iter(self._episodes.values())

    def __len__(self) -> int:
        return len(self._episodes)

    def get(self, episode_id: str) -> Episode | None:
        """The living episode of that id."""
        return self._episodes.get(episode_id)

    def find(self, info: EpisodeInfo) -> Episode | None:
        """The living episode that was opened with this tenant and open_id."""
        episode_id = self._by_open_id.get((info.tenant, info.open_id))
        return None if episode_id is None else self._episodes[episode_id]

    def open(self, info: EpisodeInfo, now_s: float) -> Attachment:
        """Take a place at the door, or join the one that the same open_id already has.

        Raises:
            EpisodeEndedError, LeaseExpiredError: The open_id belongs to an admitted episode that
                is no more; a repeated open must not start a second one.
        """
        key = (info.tenant, info.open_id)
        if key in self._ended_open_ids:
            episode_id = self._ended_open_ids[key]
            raise ended_error(episode_id, self._tombstones[episode_id])
        episode = self.find(info)
        if episode is None:
            episode = Episode(
                episode_id=self._new_id(),
                secret=self._make_id(),
                info=info,
                phase=Phase.QUEUED,
                opened_s=now_s,
                lease_until_s=now_s + self._ttl_s,
            )
            self._episodes[episode.episode_id] = episode
            self._by_open_id[key] = episode.episode_id
        return self._attach(episode, now_s)

    def resume(self, reference: Reference, now_s: float) -> Attachment:
        """Attach a new stream to an admitted episode; the epoch goes up and fences older ones.

        Any epoch up to the present one may resume: the client may have lost the answer that told
        it the newest.
        """
        episode = self._authorise(reference)
        return self._attach(episode, now_s)

    def heartbeat(self, attachment: Attachment, now_s: float) -> float:
        """Renew the lease. Returns the seconds that remain.

        Raises:
            FencedError: A newer stream took over.
            EpisodeEndedError, LeaseExpiredError, EpisodeUnknownError: The episode is no more.
        """
        episode = self._holder(attachment)
        episode.lease_until_s = now_s + self._ttl_s
        return self._ttl_s

    def is_current(self, attachment: Attachment) -> bool:
        """Whether this stream is the newest one of a living episode."""
        episode = self._episodes.get(attachment.episode_id)
        return episode is not None and episode.stream == attachment.stream

    def detach(self, attachment: Attachment) -> None:
        """The stream is gone. The lease runs on; a fenced or late detach changes nothing."""
        if self.is_current(attachment):
            self._episodes[attachment.episode_id].connected = False

    def admit(self, episode_id: str, now_s: float) -> Episode:
        """Move a queued episode inside."""
        episode = self._episodes[episode_id]
        if episode.phase is not Phase.QUEUED:
            raise ValueError(
                f"episode {episode_id} is {episode.phase.value}, only queued ones can be admitted"
            )
        episode.phase = Phase.ADMITTED
        episode.admitted_s = now_s
        episode.epoch = 1
        return episode

    def authorise(self, reference: Reference) -> Episode:
        """The admitted episode that a call may work on.

        Raises:
            EpisodeLostError: The reference comes from an earlier server process.
            EpisodeUnknownError: No such episode.
            EpisodeEndedError, LeaseExpiredError: It is no more.
            UnauthenticatedError: Wrong secret.
            FencedError: The reference is of an older epoch.
        """
        episode = self._authorise(reference)
        if reference.epoch != episode.epoch:
            raise FencedError(
                "a newer stream of this episode has taken over",
                field="epoch",
                value=reference.epoch,
                allowed=(episode.epoch,),
            )
        return episode

    def end(self, episode_id: str, cause: EndCause) -> Episode:
        """Take a living episode out, once. Raises what `authorise` raises for one that is not."""
        episode = self._episodes.pop(episode_id, None)
        if episode is None:
            raise self._absent(episode_id)
        key = (episode.info.tenant, episode.info.open_id)
        del self._by_open_id[key]
        self._tombstones[episode_id] = cause
        if episode.phase is Phase.ADMITTED:
            self._ended_open_ids[key] = episode_id
        while len(self._tombstones) > self._max_tombstones:
            oldest, _ = self._tombstones.popitem(last=False)
            if self._ended_open_ids and next(iter(self._ended_open_ids.values())) == oldest:
                self._ended_open_ids.popitem(last=False)
        return episode

    def extend(self, by_s: float, now_s: float) -> None:
        """Give every lease `by_s` more, up to a whole lease time from now.

        For a server that stood still for so long: it has heard nobody meanwhile, and heartbeats
        that came are still to be read.
        """
        for episode in self:
            longest_s = max(episode.lease_until_s, now_s + self._ttl_s)
            episode.lease_until_s = min(episode.lease_until_s + by_s, longest_s)

    def expired(self, now_s: float) -> list[Episode]:
        """Living episodes whose lease has run out, oldest first."""
        return [episode for episode in self if now_s >= episode.lease_until_s]

    def _new_id(self) -> str:
        while True:
            candidate = self._make_id()
            if candidate not in self._episodes and candidate not in self._tombstones:
                return candidate

    def _attach(self, episode: Episode, now_s: float) -> Attachment:
        episode.stream += 1
        episode.connected = True
        episode.lease_until_s = now_s + self._ttl_s
        if episode.phase is Phase.ADMITTED:
            episode.epoch += 1
        return Attachment(episode.episode_id, episode.stream)

    def _holder(self, attachment: Attachment) -> Episode:
        episode = self._episodes.get(attachment.episode_id)
        if episode is None:
            raise self._absent(attachment.episode_id)
        if episode.stream != attachment.stream:
            raise FencedError("a newer stream of this episode has taken over")
        return episode

    def _authorise(self, reference: Reference) -> Episode:
        if reference.boot_id != self._boot_id:
            raise EpisodeLostError(
                "the server has restarted since this episode was admitted",
                field="server_boot_id",
                value=reference.boot_id,
                allowed=(self._boot_id,),
                hint="start a new episode",
            )
        episode = self._episodes.get(reference.episode_id)
        if episode is None:
            raise self._absent(reference.episode_id)
        if not hmac.compare_digest(episode.secret.encode(), reference.secret.encode()):
            raise UnauthenticatedError("wrong episode secret", field="episode_secret")
        if episode.phase is not Phase.ADMITTED:
            raise EpisodeUnknownError(
                "the episode has not been admitted yet",
                field="episode_id",
                value=reference.episode_id,
            )
        return episode

    def _absent(self, episode_id: str) -> RobotSdkError:
        cause = self._tombstones.get(episode_id)
        if cause is not None:
            return ended_error(episode_id, cause)
        return EpisodeUnknownError(
            "no such episode on this server", field="episode_id", value=episode_id
        )
