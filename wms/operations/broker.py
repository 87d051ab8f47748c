"""The broker of the background work: whether it accepts a value, and how many tasks wait in its queues."""

from collections.abc import Mapping
from typing import Final

from django.conf import settings
from redis import Redis
from redis.exceptions import RedisError

#: Queues of Celery, each with a worker of its own.
QUEUES: Final = ("control", "sites")


def queue_depths() -> Mapping[str, int] | None:
    """Return {queue: number of tasks that no worker has taken yet}; None: the broker does not answer in 0.2 s.

    It counts as silent if it accepts no value, as when its memory is full.
    """
    cache = settings.CACHES["rates"]  # the same server, with short time-outs
    try:
        with Redis.from_url(cache["LOCATION"], **cache["OPTIONS"]) as redis, redis.pipeline(transaction=False) as asked:
            asked.set("wms-operations", "", ex=1)
            for queue in QUEUES:
                asked.llen(queue)
            _, *depths = asked.execute()
    except (RedisError, OSError):
        return None
    return dict(zip(QUEUES, depths, strict=True))
