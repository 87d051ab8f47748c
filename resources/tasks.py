"""Background tasks of the resources app; safe to run twice, late or never (the next run catches up)."""

from celery import shared_task

from resources.services import downtimes
from resources.services.gocdb_feed import import_feed
from wms.kernel.clock import current_time
from wms.kernel.counters import ROWS_REMOVED


@shared_task(name="resources.import_downtimes", ignore_result=True, acks_late=True)
def import_downtimes() -> None:
    """Every 15 minutes: import the downtimes that GOCDB announces, if WMS_GOCDB_URL says where; remove old ones."""
    now = current_time()
    ROWS_REMOVED.labels("resources_downtime").inc(downtimes.remove_old(now=now))
    import_feed(now=now)
