from django.apps import AppConfig
from django.utils.module_loading import import_string

from wms.kernel.secrets import register_store


class ResourcesConfig(AppConfig):
    name = "resources"

    def ready(self) -> None:
        """Register the credentials of storage elements; their model can be imported only now."""
        register_store(import_string("resources.services.credentials.stored_credentials"))
