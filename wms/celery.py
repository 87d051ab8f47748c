"""The Celery application; its beat table is in wms.schedule."""

import os

from celery import Celery, Task
from celery.exceptions import Ignore
from celery.signals import beat_init, celeryd_init

from wms.kernel.checks import refuse_other_database, refuse_unsafe_start
from wms.kernel.database_version import refusal_of_running
from wms.schedule import BEAT

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wms.settings")
# Celery would run all of Django's checks, whose results it ignores: reading the URLs and their views for them takes a
# process most of its start.
os.environ.setdefault("CELERY_SKIP_CHECKS", "true")


class CarefulTask(Task):  # type: ignore[misc] # untyped there
    """A task that a worker ignores while a newer program has migrated the database (ADR 90)."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Run the task."""
        if not self.request.called_directly and refusal_of_running():
            raise Ignore
        return super().__call__(*args, **kwargs)


app = Celery("wms", task_cls=CarefulTask)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.beat_schedule = BEAT
app.autodiscover_tasks()


@celeryd_init.connect
@beat_init.connect
def refuse_to_start_unsafe(**sent: object) -> None:  # noqa: ARG001 - Celery's signature
    """Run those checks of `manage.py check` that refuse a start."""
    refuse_unsafe_start()
    refuse_other_database()
