"""The configuration of a pilot (GET /api/v1/pilots/config/)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pilots.agent.server import json_fields
from pilots.agent.server.json_fields import Record
from wms.wire.amounts import AMOUNTS, StatedAmounts
from wms.wire.protocol import IDENTITY_NONE, PROTOCOL, WatchdogMargins


class OtherProtocolError(Exception):
    """The server uses another version of the protocol than this agent."""

    def __init__(self, of_server: int) -> None:
        needed = "a newer" if of_server > PROTOCOL else "an older"
        super().__init__(f"the server speaks protocol {of_server}, this agent {PROTOCOL}; {needed} agent is needed")


@dataclass(frozen=True)
class Place(StatedAmounts):
    """The batch queue where the pilot runs; empty names for a pilot that was created by hand."""

    site: str = ""
    ce: str = ""
    queue: str = ""
    cpu_time_s: int | None = None
    #: Whether containers may be run; None: if the node can.
    container: bool | None = None
    platforms: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    required_tags: tuple[str, ...] = ()
    #: Identity of payloads, see identity.py, and the Unix accounts for ``sudo``.
    identity: str = IDENTITY_NONE
    payload_users: tuple[str, ...] = ()


@dataclass(frozen=True)
class PilotConfiguration:
    """The configuration of one pilot."""

    server_time: datetime | None
    #: Monotonic time at which the configuration was requested, for comparison with server_time.
    asked_at: float
    place: Place
    heartbeat_s: float
    match_retry_after_s: float
    lease_first_s: float
    lease_s: float
    #: Seconds before the end of a lease at which its payload is stopped.
    lease_grace_s: float
    sandbox_max_bytes: int
    sandbox_max_unpacked_bytes: int
    watchdog: WatchdogMargins

    @property
    def look_every_s(self) -> float:
        """Return the seconds between two checks of a payload."""
        return min(self.watchdog.period_s, self.heartbeat_s)

    @property
    def min_free_disk_mb(self) -> float:
        """Return the disk space that must be free before and while payloads run."""
        return self.watchdog.min_free_disk_mb


def parse(data: Record, *, asked_at: float) -> PilotConfiguration:
    """Return the configuration in an answer; missing fields have the default values of the server's settings.

    Raises:
        MalformedAnswerError: a field has a wrong type, or ``protocol`` is missing.
        OtherProtocolError: the protocol is not the agent's.
    """
    protocol = json_fields.whole(data, "protocol")
    if protocol != PROTOCOL:
        raise OtherProtocolError(protocol)
    watchdog = json_fields.optional_record(data, "watchdog")
    return PilotConfiguration(
        server_time=json_fields.moment(data, "server_time"),
        asked_at=asked_at,
        place=_place(json_fields.optional_record(data, "place")),
        heartbeat_s=json_fields.number(data, "heartbeat_s", 30),
        match_retry_after_s=json_fields.number(data, "match_retry_after_s", 10),
        lease_first_s=json_fields.number(data, "lease_first_s", 300),
        lease_s=json_fields.number(data, "lease_s", 1800),
        lease_grace_s=json_fields.number(data, "lease_grace_s", 60),
        sandbox_max_bytes=json_fields.whole(data, "sandbox_max_bytes", 10 * 1024 * 1024),
        sandbox_max_unpacked_bytes=json_fields.whole(data, "sandbox_max_unpacked_bytes", 200 * 1024 * 1024),
        watchdog=WatchdogMargins(
            **{name: json_fields.number(watchdog, name, usual) for name, usual in WatchdogMargins()._asdict().items()}
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
        **{amount.name: size(amount.name) for amount in AMOUNTS},
        container=None if data.get("container") is None else data["container"] is True,
        platforms=json_fields.names(data, "platforms"),
        tags=json_fields.names(data, "tags"),
        required_tags=json_fields.names(data, "required_tags"),
        identity=json_fields.text(data, "identity", IDENTITY_NONE),
        payload_users=json_fields.names(data, "payload_users"),
    )
