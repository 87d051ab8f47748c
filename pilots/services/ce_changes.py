"""Changes of computing elements: what was held against one before ends with a change that could have mended it.

A change is found by comparison with what was noted in the last round, so it does not matter whether a configuration
file, the admin or a statement in the database made it. Called in each cycle of the directors and before each round.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any

from django.db.models import Model, Q, QuerySet

from pilots.models import CEHealth
from resources.models import ComputingElement, Queue

#: Columns that no batch system and no pilot on its way there depends on: jobs are compared with them.
_FOR_JOBS = frozenset({"parameters", "vo_parameters", "saying"})
#: Of a site only its state decides whether pilots are sent.
_OF_SITE = ("state", "state_until", "state_changed_at")


def held_back() -> "QuerySet[CEHealth]":
    """Return the health of the computing elements to which something keeps pilots, or rounds, from going."""
    free = Q(failures=0, ask_after=None, send_after=None, trouble="", stalls="")
    return CEHealth.objects.filter(~free)


def note_changes(rows: "QuerySet[CEHealth]", *, now: datetime) -> None:
    """Forget what is held against computing elements that were changed since they were looked at last.

    They are asked again at once, and only pilots that were submitted after the change are held against them.
    """
    known = dict(rows.values_list("ce", "described_as"))
    for ce_id, digest in _descriptions(known).items():
        if digest == known[ce_id]:
            continue
        row = CEHealth.objects.filter(ce=ce_id, described_as=known[ce_id])
        if not known[ce_id]:  # looked at for the first time
            row.update(described_as=digest)
            continue
        row.update(
            described_as=digest,
            judged_from=now,
            failures=0,
            ask_after=None,
            send_after=None,
            asked_at=None,
            free_slots=None,
            trouble="",
            stalls="",
        )


def _descriptions(ce_ids: Collection[int]) -> Mapping[int, str]:
    """Return a digest of everything that decides how, and whether, pilots are submitted to each computing element."""
    if not ce_ids:
        return {}
    of_site = [f"site__{name}" for name in _OF_SITE]
    ces = ComputingElement.objects.filter(pk__in=ce_ids).values(*_columns(ComputingElement), *of_site)
    queues: defaultdict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for queue in Queue.objects.filter(ce__in=ce_ids).order_by("pk").values(*_columns(Queue)):
        queues[queue["ce_id"]].append(queue)
    return {ce["id"]: _digest([ce, queues[ce["id"]]]) for ce in ces}


def _columns(model: type[Model]) -> list[str]:
    return [column.attname for column in model._meta.concrete_fields if column.attname not in _FOR_JOBS]  # noqa: SLF001 - Django's API


def _digest(description: object) -> str:
    return sha256(json.dumps(description, sort_keys=True, default=str).encode()).hexdigest()
