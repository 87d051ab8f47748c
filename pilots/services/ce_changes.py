"""Changes of computing elements: a change ends back-off and failures that were recorded before it (ADR 38).

A change is detected by comparing a digest with that of the last round, so its origin (configuration file, admin, SQL)
does not matter. Called in each cycle of the directors and before each round.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime
from hashlib import sha256

from django.db.models import Model, Q, QuerySet

from pilots.models import CEHealth
from resources.models import ComputingElement, Queue

#: Columns that concern only the matching of jobs, not the submission of pilots.
_FOR_JOBS = frozenset({"parameters", "vo_parameters", "parameters_digest"})
#: Columns of a site that matter: only its state decides whether pilots are sent.
_OF_SITE = ("state", "state_until", "state_changed_at")


def held_back() -> "QuerySet[CEHealth]":
    """Return the health of the computing elements with failures, back-off or stalled pilots."""
    free = Q(failures=0, ask_after=None, send_after=None, trouble="", stalls="")
    return CEHealth.objects.filter(~free)


def note_changes(rows: "QuerySet[CEHealth]", *, now: datetime) -> None:
    """Reset failures and back-off of computing elements that were changed since the last check.

    Their next round may begin at once; only pilots submitted after the change count as their failures.
    """
    old_digests = dict(rows.values_list("ce", "described_as"))
    for ce_id, digest in _descriptions(old_digests).items():
        if digest == old_digests[ce_id]:
            continue
        row = CEHealth.objects.filter(ce=ce_id, described_as=old_digests[ce_id])
        if not old_digests[ce_id]:  # first check
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
    """Return, by CE, a digest of all columns that decide whether and how pilots are submitted to it."""
    if not ce_ids:
        return {}
    of_site = [f"site__{name}" for name in _OF_SITE]
    ces = ComputingElement.objects.filter(pk__in=ce_ids).values(*_columns(ComputingElement), *of_site)
    queues: defaultdict[int, list[Mapping[str, object]]] = defaultdict(list)
    for queue in Queue.objects.filter(ce__in=ce_ids).order_by("pk").values(*_columns(Queue)):
        queues[queue["ce_id"]].append(queue)
    return {ce["id"]: _digest([ce, queues[ce["id"]]]) for ce in ces}


def _columns(model: type[Model]) -> list[str]:
    return [column.attname for column in model._meta.concrete_fields if column.attname not in _FOR_JOBS]


def _digest(description: object) -> str:
    return sha256(json.dumps(description, sort_keys=True, default=str).encode()).hexdigest()
