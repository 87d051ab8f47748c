"""The project itself as an application: whoever starts Django has the Celery application configured."""

from django.apps import AppConfig

from wms.celery import app as celery_app


class ProjectConfig(AppConfig):
    """Composition root of the Django processes."""

    name = "wms"
    celery_app = celery_app
