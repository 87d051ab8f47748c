"""The Celery application; its beat table is in wms.schedule."""

import os

from celery import Celery

from wms.schedule import BEAT

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wms.settings")

app = Celery("wms")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.beat_schedule = BEAT
app.autodiscover_tasks()
