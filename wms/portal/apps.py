from django.apps import AppConfig


class PortalConfig(AppConfig):
    name = "wms.portal"
