from django.apps import AppConfig
from django.utils.module_loading import import_string


class AccountsConfig(AppConfig):
    name = "wms.accounts"

    def ready(self) -> None:
        """Connect the adapters; they can be imported only now, as their models are loaded."""
        import_string("wms.accounts.adapters.connect")()
