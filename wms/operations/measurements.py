"""Values of the whole system, measured every 15 s and stored in one row, from which any process answers (ADR 98)."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from wms.kernel.db import database_now
from wms.operations.gauges import GAUGES
from wms.operations.models import StoredMeasurements

logger = logging.getLogger(__name__)

#: {gauge: [({label: value}, number), …]}.
Values = Mapping[str, Sequence[tuple[Mapping[str, str], float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """Values of the gauges at one moment."""

    #: By the database's clock.
    at: datetime
    values: Values


def measure() -> Measurements:
    """Read all gauges; one that cannot be read, such as that of a volume that is broken, has no values.

    Raises:
        DatabaseError: the database is away.
    """
    at = database_now()
    values: dict[str, Sequence[tuple[Mapping[str, str], float]]] = {}
    for gauge in GAUGES:
        try:
            numbers = gauge.read(at)
        except OSError as error:
            logger.warning("gauge.unreadable", extra={"gauge": gauge.name, "reason": str(error)})
            numbers = {}
        values[gauge.name] = [
            (dict(zip(gauge.labels, of, strict=True)), value) for of, value in sorted(numbers.items())
        ]
    return Measurements(at=at, values=values)


def store(measured: Measurements) -> None:
    """Replace the stored measurements."""
    values = {
        name: [[list(labels.values()), value] for labels, value in samples] for name, samples in measured.values.items()
    }
    StoredMeasurements.objects.update_or_create(pk=1, defaults={"measured_at": measured.at, "values": values})


def latest() -> Measurements | None:
    """Return the stored measurements; None: nothing was measured yet.

    Raises:
        DatabaseError: the database is away.
    """
    row = StoredMeasurements.objects.first()
    if row is None:
        return None
    labels_of = {gauge.name: gauge.labels for gauge in GAUGES}
    values = {
        name: [(dict(zip(labels_of[name], of, strict=True)), value) for of, value in samples]
        for name, samples in row.values.items()
        if name in labels_of  # after an upgrade the row may have others
    }
    return Measurements(at=row.measured_at, values=values)
