from collections.abc import Iterator

from django.apps import AppConfig
from django.utils.module_loading import import_string

from wms.kernel.checks import register_start_check
from wms.kernel.secrets import StoredSecret, register_store


class AccountsConfig(AppConfig):
    name = "wms.accounts"

    def ready(self) -> None:
        """Register what every process needs.

        The adapters of log-ins connect themselves when the web server's addresses import them: with all that these
        import, other processes would take nearly twice as long to start.
        """
        register_start_check(import_string("wms.accounts.oidc.configuration.check_providers"))
        register_store(_second_factors)


def _second_factors(*, locked: bool) -> Iterator[StoredSecret]:
    """Yield the secrets of second factors."""
    secrets: Iterator[StoredSecret] = import_string("wms.accounts.services.second_factors.stored_secrets")(
        locked=locked
    )
    return secrets
