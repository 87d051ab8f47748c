"""The Celery application; its beat table is in wms.schedule."""

import os
import sys

from celery import Celery
from celery.signals import beat_init, celeryd_init

from wms.kernel.checks import refuse_unsafe_start
from wms.schedule import BEAT

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wms.settings")
# Celery would run all of Django's checks, whose results it ignores: reading the URLs and their views for them takes a
# process most of its start.
os.environ.setdefault("CELERY_SKIP_CHECKS", "true")

_path = [*sys.path]
app = Celery("wms")
# It has put the current directory in front, which may be somebody else's.
sys.path[:] = _path
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.beat_schedule = BEAT
app.autodiscover_tasks()


@celeryd_init.connect
@beat_init.connect
def refuse_to_start_unsafe(**sent: object) -> None:  # noqa: ARG001 - Celery's signature
    """Run those checks of `manage.py check` that refuse a start."""
    refuse_unsafe_start()
