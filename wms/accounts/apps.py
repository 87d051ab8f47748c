from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "wms.accounts"

    def ready(self) -> None:
        # Imported here, once the models are loaded.
        from allauth.mfa import signals  # noqa: PLC0415
        from allauth.socialaccount.signals import social_account_added  # noqa: PLC0415

        from wms.accounts.adapters import on_connected  # noqa: PLC0415
        from wms.accounts.oidc.configuration import check_providers  # noqa: PLC0415
        from wms.accounts.services import second_factors  # noqa: PLC0415
        from wms.kernel.checks import register_start_check  # noqa: PLC0415
        from wms.kernel.secrets import register_store  # noqa: PLC0415

        signals.authenticator_added.connect(second_factors.on_added)
        signals.authenticator_reset.connect(second_factors.on_added)
        signals.authenticator_used.connect(second_factors.on_used)
        signals.authenticator_removed.connect(second_factors.on_removed)
        social_account_added.connect(on_connected)
        register_start_check(check_providers)
        register_store(second_factors.stored_secrets)
