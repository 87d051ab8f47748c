"""What the pilot knows of its place: the server's configuration and the node, both looked at again now and then."""

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

#: The node is looked at again after so long: disks fill up, and the answer renews the pilot's token, which nothing else
#: does for the pilot itself.
_LOOK_AGAIN_S = 900.0
#: One image that does not start may be no good; so many different ones in a row are not: it is the node's runtime.
_IMAGES_NOT_STARTED = 2
#: Sooner while what is wrong with it may be the doing of the jobs that run.
_LOOK_AGAIN_AT_UNFIT_S = 60.0
#: A token is renewed by the first report in the second half of its life.
_LOOKS_IN_TOKENS_LIFE = 4


@dataclass(frozen=True)
class NodeSnapshot:
    """What the last look showed.

    Attributes:
        configuration: newest.
        slot: all that is offered when no job runs.
        free_disk_mb: now, with what jobs that run have written.
        fit: whether jobs can come.
        report: for the server.
        alone: whether nothing keeps payloads from each other, so that one runs at a time.
    """

    configuration: PilotConfiguration
    slot: Resources
    free_disk_mb: int
    fit: bool
    report: Record
    alone: bool


class NodeMonitor:
    """Looks, and remembers.

    Attributes:
        look_at: when to look again, by the pilot's clock.
        snapshot: of the last look.
    """

    def __init__(self, options: Options, *, started_at: float) -> None:
        """Look at nothing yet.

        Args:
            options: of the command line.
            started_at: when the pilot was, by its clock.
        """
        self._options = options
        self._started_at = started_at
        self._batch_system = BatchSystem(os.environ)
        self._every_s = _LOOK_AGAIN_S
        #: From when on containers are offered again.
        self._containers_at = -math.inf
        #: Of the last jobs in containers, which did not start.
        self._images_not_started: set[str] = set()
        self.look_at = -math.inf
        self.snapshot: NodeSnapshot | None = None

    def note_token(self, *, lasts_s: float) -> None:
        """Have looks come so often that a token that lasts so long is renewed in time."""
        self._every_s = max(1.0, min(_LOOK_AGAIN_S, lasts_s / _LOOKS_IN_TOKENS_LIFE))

    def look_soon(self) -> None:
        """Look before the next job."""
        self.look_at = -math.inf

    def look_later(self) -> None:
        """Look when it is time again."""
        self.look_at = monotonic() + self._every_s

    def note_container(self, image: str, *, started: bool) -> None:
        """Offer no containers for some time when a second image in a row has not started: then it is the runtime.

        One image that does not start tells nothing of the node: the job may have named it wrongly.
        """
        if started:
            self._images_not_started.clear()
            return
        self._images_not_started.add(image)
        if len(self._images_not_started) >= _IMAGES_NOT_STARTED:
            self._images_not_started.clear()
            self._containers_at = monotonic() + _LOOK_AGAIN_S

    def look(self, configuration: PilotConfiguration, answer: Answer, *, busy: bool) -> NodeSnapshot:
        """Look at the node.

        Args:
            configuration: newest.
            answer: that it came in.
            busy: whether jobs run.
        """
        kind = isolation.kind(configuration.place)
        found = inspection.look(
            self._options.work_dir,
            min_free_disk_mb=configuration.min_free_disk_mb,
            skew_s=answer.skew_s(now=time.time() - (monotonic() - answer.sent_at)),
            container_needed=configuration.place.container is True,
            processors=self._options.node_processors,
            memory_mb=self._options.node_memory_mb,
            speed=self._options.speed,
            # Several are what the node can be taken for; the first is what it is.
            platform_name=next(iter(self._options.platforms), None),
            stamp=self._options.stamp,
            isolation=kind,
        )
        for check in found.checks:
            log.event("node.check", check=check.name, ok=check.ok, detail=check.detail)
        slot = resources_of(
            self._options,
            configuration.place,
            found,
            allocation=self._batch_system.allocation(),
            started_at=self._started_at,
        )
        before_jobs_mb = self.snapshot.slot.disk_mb if busy and self.snapshot else slot.disk_mb
        container = slot.container and monotonic() >= self._containers_at
        # That a node is not fit ends a pilot on the server, which takes its jobs from it: not when they are the cause.
        report = {**found.as_record(), "ok": True} if busy else found.as_record()
        self.look_at = monotonic() + (self._every_s if found.ok else _LOOK_AGAIN_AT_UNFIT_S)
        self.snapshot = NodeSnapshot(
            configuration=configuration,
            slot=replace(slot, disk_mb=before_jobs_mb, container=container),
            free_disk_mb=slot.disk_mb,
            fit=found.ok,
            report=report,
            alone=kind == isolation.ALONE,
        )
        return self.snapshot
