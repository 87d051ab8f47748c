"""The node monitor: inspects the node at intervals and keeps the result with the configuration."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, replace

from pilots.agent.base import log
from pilots.agent.base.clock import monotonic
from pilots.agent.job import isolation
from pilots.agent.node import inspection
from pilots.agent.node.batch_system import BatchSystem
from pilots.agent.pilot.offer import Resources, resources_of
from pilots.agent.pilot.options import Options
from pilots.agent.server.configuration import PilotConfiguration
from pilots.agent.server.http import Answer
from pilots.agent.server.json_fields import Record
from wms.wire.http import proxy_name

#: Seconds between two inspections: disks fill up, and only the answer to the report renews the pilot's token.
_LOOK_AGAIN_S = 900.0
#: Different images in a row that do not start until the node's runtime counts as broken: a single image may be bad.
_IMAGES_NOT_STARTED = 2
#: Seconds until the next inspection of an unfit node with running jobs, which may be the cause.
_LOOK_AGAIN_AT_UNFIT_S = 60.0
#: Inspections in the lifetime of a token, which the first report in its second half renews.
_LOOKS_IN_TOKENS_LIFE = 4


@dataclass(frozen=True)
class NodeSnapshot:
    """The result of an inspection.

    Attributes:
        configuration: the newest.
        slot: resources offered when no job runs.
        free_disk_mb: now, with the files of running jobs.
        fit: whether jobs can run.
        report: for the server.
        alone: True if payloads cannot be isolated, so that one runs at a time.
    """

    configuration: PilotConfiguration
    slot: Resources
    free_disk_mb: int
    fit: bool
    report: Record
    alone: bool


class NodeMonitor:
    """Inspections of the node.

    Attributes:
        look_at: monotonic time of the next inspection.
        snapshot: result of the last one.
    """

    def __init__(self, options: Options, *, started_at: float) -> None:
        """Prepare; nothing is inspected yet.

        Args:
            options: of the command line.
            started_at: monotonic time of the pilot's start.
        """
        self._options = options
        self._started_at = started_at
        self._batch_system = BatchSystem(os.environ)
        self._every_s = _LOOK_AGAIN_S
        #: Monotonic time from which containers are offered again.
        self._containers_at = -math.inf
        #: Images of the last jobs in containers, none of which started.
        self._images_not_started: set[str] = set()
        self.look_at = -math.inf
        self.snapshot: NodeSnapshot | None = None

    def note_token(self, *, lasts_s: float) -> None:
        """Set the interval so that a token that lasts *lasts_s* is renewed in time."""
        self._every_s = max(1.0, min(_LOOK_AGAIN_S, lasts_s / _LOOKS_IN_TOKENS_LIFE))

    def look_soon(self) -> None:
        """Inspect the node before the next job."""
        self.look_at = -math.inf

    def look_later(self) -> None:
        """Postpone the next inspection by one interval."""
        self.look_at = monotonic() + self._every_s

    def note_container(self, image: str, *, started: bool) -> None:
        """Offer no containers for some time if several images in a row did not start.

        A single image that does not start says nothing about the node: its name may be wrong.
        """
        if started:
            self._images_not_started.clear()
            return
        self._images_not_started.add(image)
        if len(self._images_not_started) >= _IMAGES_NOT_STARTED:
            self._images_not_started.clear()
            self._containers_at = monotonic() + _LOOK_AGAIN_S

    def look(self, configuration: PilotConfiguration, answer: Answer, *, busy: bool) -> NodeSnapshot:
        """Inspect the node.

        Args:
            configuration: the newest.
            answer: with the configuration; its Date gives the clock skew.
            busy: whether jobs run.
        """
        kind = isolation.kind(configuration.place)
        skew_s = answer.skew_s(now=time.time() - (monotonic() - answer.sent_at))
        node = self._inspect(configuration, skew_s=skew_s, isolation_kind=kind)
        slot = resources_of(
            self._options,
            configuration.place,
            node,
            allocation=self._batch_system.allocation(),
            started_at=self._started_at,
        )
        before_jobs_mb = self.snapshot.slot.disk_mb if busy and self.snapshot else slot.disk_mb
        container = slot.container and monotonic() >= self._containers_at
        # An unfit node ends the pilot at the server, with its jobs. Not reported while jobs may be the cause.
        report = {**node.as_record(), "ok": True} if busy else node.as_record()
        self.look_at = monotonic() + (self._every_s if node.ok else _LOOK_AGAIN_AT_UNFIT_S)
        self.snapshot = NodeSnapshot(
            configuration=configuration,
            slot=replace(slot, disk_mb=before_jobs_mb, container=container),
            free_disk_mb=slot.disk_mb,
            fit=node.ok,
            report=report,
            alone=kind == isolation.ALONE,
        )
        return self.snapshot

    def _inspect(
        self, configuration: PilotConfiguration, *, skew_s: float | None, isolation_kind: str
    ) -> inspection.NodeReport:
        node = inspection.look(
            self._options.work_dir,
            min_free_disk_mb=configuration.min_free_disk_mb,
            skew_s=skew_s,
            container_needed=configuration.place.container is True,
            processors=self._options.node_processors,
            memory_mb=self._options.node_memory_mb,
            speed=self._options.speed,
            # Several platforms may be offered; the first is reported as the node's.
            platform_name=next(iter(self._options.platforms), None),
            stamp=self._options.stamp,
            isolation=isolation_kind,
        )
        for check in node.checks:
            log.event("node.check", check=check.name, ok=check.ok, detail=check.detail)
        return replace(node, facts={**node.facts, "proxy": proxy_name(self._options.server) or None})
