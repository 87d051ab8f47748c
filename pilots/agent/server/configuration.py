"""What the server tells every pilot before its first job (GET /api/pilots/config/)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

from pilots.agent.server import json_fields
from pilots.agent.server.json_fields import Record
from pilots.agent.server.protocol import PROTOCOL


class OtherProtocolError(Exception):
    """The server speaks another protocol than this agent, so that nothing else that it says can be relied on."""

    def __init__(self, of_server: int) -> None:
        needed = "a newer" if of_server > PROTOCOL else "an older"
        super().__init__(f"the server speaks protocol {of_server}, this agent {PROTOCOL}; {needed} agent is needed")


@dataclass(frozen=True)
class Place:
    """The queue where the pilot runs; empty names for a pilot that was made by hand."""

    site: str = ""
    ce: str = ""
    queue: str = ""
    cpu_time_s: int | None = None
    processors: int | None = None
    memory_mb: int | None = None
    wall_time_s: int | None = None
    gpus: int | None = None
    disk_mb: int | None = None
    #: None: nobody told; the node decides.
    container: bool | None = None
    platforms: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    required_tags: tuple[str, ...] = ()
    #: As whom payloads run: see identity.py; sudo chooses among these Unix accounts.
    identity: str = "none"
    payload_users: tuple[str, ...] = ()


@dataclass(frozen=True)
class Margins:
    """Of the watchdog; what each means is said in pilots.domain.pilot.WatchdogMargins, where they come from."""

    cpu_factor: float = 1.1
    memory_factor: float = 1.1
    min_free_disk_mb: float = 500
    stalled_s: float = 1800
    stalled_cpu_fraction: float = 0.05
    max_stalled_s: float = 86400
    stalled_warning_fraction: float = 0.5
    warning_fraction: float = 0.9
    stream_max_mb: float = 1000
    unasked_disk_mb: float = 1000


@dataclass(frozen=True)
class PilotConfiguration:
    """Durations in seconds, sizes in the unit that the name says."""

    server_time: datetime | None
    #: By the pilot's clock, when the request for this was sent: what server_time is compared with.
    asked_at: float
    place: Place
    heartbeat_s: float
    match_retry_after_s: float
    lease_first_s: float
    lease_s: float
    #: So long before a lease's end its payload is stopped.
    lease_grace_s: float
    sandbox_max_bytes: int
    sandbox_max_unpacked_bytes: int
    look_every_s: float
    watchdog: Margins

    @property
    def min_free_disk_mb(self) -> float:
        """Return what must be free on the disk before and while payloads run."""
        return self.watchdog.min_free_disk_mb


def parse(data: Record, *, asked_at: float) -> PilotConfiguration:
    """Return the configuration in an answer; what is missing has the value that the server's settings begin with.

    Raises:
        MalformedAnswerError: a key has another form than the contract says, or there is no protocol.
        OtherProtocolError: it is not the agent's.
    """
    protocol = json_fields.whole(data, "protocol")
    if protocol != PROTOCOL:
        raise OtherProtocolError(protocol)
    watchdog = json_fields.optional_record(data, "watchdog")
    heartbeat_s = json_fields.number(data, "heartbeat_s", 30)
    return PilotConfiguration(
        server_time=json_fields.moment(data, "server_time"),
        asked_at=asked_at,
        place=_place(json_fields.optional_record(data, "place")),
        heartbeat_s=heartbeat_s,
        match_retry_after_s=json_fields.number(data, "match_retry_after_s", 10),
        lease_first_s=json_fields.number(data, "lease_first_s", 300),
        lease_s=json_fields.number(data, "lease_s", 1800),
        lease_grace_s=json_fields.number(data, "lease_grace_s", 60),
        sandbox_max_bytes=json_fields.whole(data, "sandbox_max_bytes", 10 * 1024 * 1024),
        sandbox_max_unpacked_bytes=json_fields.whole(data, "sandbox_max_unpacked_bytes", 200 * 1024 * 1024),
        look_every_s=min(json_fields.number(watchdog, "period_s", 10), heartbeat_s),
        watchdog=Margins(
            **{name: json_fields.number(watchdog, name, usual) for name, usual in asdict(Margins()).items()}
        ),
    )


def _place(data: Record) -> Place:
    def size(name: str) -> int | None:
        return None if data.get(name) is None else json_fields.whole(data, name)

    return Place(
        site=json_fields.text(data, "site", ""),
        ce=json_fields.text(data, "ce", ""),
        queue=json_fields.text(data, "queue", ""),
        cpu_time_s=size("cpu_time_s"),
        processors=size("processors"),
        memory_mb=size("memory_mb"),
        wall_time_s=size("wall_time_s"),
        gpus=size("gpus"),
        disk_mb=size("disk_mb"),
        container=None if data.get("container") is None else data["container"] is True,
        platforms=json_fields.names(data, "platforms"),
        tags=json_fields.names(data, "tags"),
        required_tags=json_fields.names(data, "required_tags"),
        identity=json_fields.text(data, "identity", "none"),
        payload_users=json_fields.names(data, "payload_users"),
    )
