"""Create the backend of a computing element for one round, of the type that WMS_BACKENDS registers."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.module_loading import import_string

from pilots.backends.interface import Backend, BackendError, BatchQueue, CEDescription, ChecksQueues
from pilots.models import CEHealth, Director
from pilots.services.batch_requests import request_for_queue, smallest_request_for
from resources.domain.ce_options import flaw_of_accounts, of_backend
from resources.domain.enums import PayloadIdentity, ResourceState
from resources.models import ComputingElement
from resources.services.ce_rules import refusal

logger = logging.getLogger(__name__)


def backend_of(ce: ComputingElement) -> Backend:
    """Return the backend of a CE (loaded with its site).

    Raises:
        BackendError: the CE's type or one of its options is unknown or wrong.
    """
    return _create(ce.site.name, ce.name, ce.type, ce.options, ce.identity, queues=_queues_of(ce))


def note_shortfalls(ce: ComputingElement, backend: Backend) -> None:
    """Store in the CE's health which promises of its queues the CE cannot keep.

    Raises:
        BackendError: the CE did not answer.
    """
    shortfalls = "\n".join(backend.shortfalls()) if isinstance(backend, ChecksQueues) else ""
    # They may quote output of a program, and PostgreSQL stores no NUL.
    shortfalls = shortfalls.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if CEHealth.objects.filter(~Q(shortfalls=shortfalls), ce=ce).update(shortfalls=shortfalls) and shortfalls:
        logger.warning("ce.doubtful: %s at %s: %s", ce.name, ce.site.name, shortfalls, extra={"ce_id": ce.pk})


def flaw_of_options(site: str, ce: str, type_: str, options: Mapping[str, object], identity: str) -> str | None:
    """Return what is wrong with the options of a CE, in one sentence; None: no fault visible without the CE."""
    try:
        _create(site, ce, type_, options, identity, queues=())
    except BackendError as error:
        return str(error)
    return None


def _queues_of(ce: ComputingElement) -> Sequence[BatchQueue]:
    """Return the queues of the CE that take pilots, each with the smallest slot that is requested there."""
    directors = Director.objects.filter(Q(sites=None) | Q(sites=ce.site), kind="taskqueue")
    of = smallest_request_for if directors.exists() else request_for_queue
    are_open = Q(state=ResourceState.ACTIVE) | Q(state_until__lte=Now())
    queues = ce.queues.filter(are_open).order_by("pk")
    return tuple(BatchQueue(slot=of(queue), cpu_time_s=queue.cpu_time_s) for queue in queues)


def _create(
    site: str,
    ce: str,
    type_: str,
    options: Mapping[str, object],
    identity: str,
    *,
    queues: Sequence[BatchQueue],
) -> Backend:
    if flaw := flaw_of_accounts(options, sudo=identity == PayloadIdentity.SUDO):
        raise BackendError(flaw)
    # The options may be older than this rule, or stored without a form or the configuration file.
    if refused := refusal(type_, options, identity):
        raise BackendError(refused[1])
    if type_ not in settings.WMS_BACKENDS:
        raise BackendError(f"No pilots are sent to CEs of type {type_}; there are: {', '.join(settings.WMS_BACKENDS)}.")
    backend: Backend = import_string(settings.WMS_BACKENDS[type_])(
        CEDescription(
            site=site,
            ce=ce,
            options=of_backend(options),
            directory=settings.WMS_DATA_DIR / "pilots" / site / ce,
            server_url=settings.WMS_SERVER_URL,
            hidden=[settings.WMS_DATA_DIR, *map(Path, settings.WMS_HIDDEN_FROM_PAYLOADS)],
            queues=queues,
        )
    )
    return backend
