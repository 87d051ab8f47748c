"""The project as an application, so that Django configures the Celery application at its start."""

from django.apps import AppConfig

from wms.celery import app as celery_app


class ProjectConfig(AppConfig):
    """Composition root of the Django processes."""

    name = "wms"
    celery_app = celery_app
