"""`/metrics`: the stored gauges and the counters of all processes, in the text format of Prometheus (ADR 98)."""

import os
import secrets
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from django.conf import settings
from django.db.utils import Error as DatabaseError
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from wms.kernel.addresses import client_address, is_among
from wms.kernel.counters import DIRECTORY
from wms.operations.gauges import GAUGES
from wms.operations.measurements import Measurements, latest

MEASURED_AT: Final = "wms_measured_timestamp_seconds"
MEANING_OF_MEASURED_AT: Final = "When the gauges below were measured, as Unix time of the database's clock"
_LOOPBACK: Final = ("127.0.0.0/8", "::1")


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer with all metrics; nothing is measured for it.

    401 without the token, which is of this address alone, and 404 from where it may not be read. While the database is
    away the counters are there without the gauges.
    """
    token: str = settings.WMS_METRICS_TOKEN
    if not token or not is_among(client_address(request), (*_LOOPBACK, *settings.WMS_METRICS_FROM)):
        raise Http404
    sent = request.META.get("HTTP_AUTHORIZATION", "")
    if not secrets.compare_digest(sent.encode(), f"Bearer {token}".encode()):
        return HttpResponse(
            "Send the token of WMS_METRICS_TOKEN, or of the file metrics_token, as Authorization: Bearer.\n",
            status=HTTPStatus.UNAUTHORIZED,
            content_type="text/plain",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return HttpResponse(exposition(), content_type=CONTENT_TYPE_LATEST)


def exposition() -> bytes:
    """Return all metrics in the text format of Prometheus."""
    try:
        measured = latest()
    except DatabaseError:
        measured = None
    registry = CollectorRegistry()
    if DIRECTORY in os.environ:
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    if measured is not None:
        registry.register(_Gauges(measured))
    return generate_latest(registry)


class _Gauges(Collector):
    """The stored gauges."""

    def __init__(self, measured: Measurements) -> None:
        self._measured = measured

    def collect(self) -> Iterator[Metric]:
        """Yield each gauge with its samples."""
        yield GaugeMetricFamily(MEASURED_AT, MEANING_OF_MEASURED_AT, value=self._measured.at.timestamp())
        for gauge in GAUGES:
            family = GaugeMetricFamily(gauge.name, gauge.meaning, labels=gauge.labels)
            for labels, value in self._measured.values.get(gauge.name, ()):
                family.add_metric(list(labels.values()), value)
            yield family
