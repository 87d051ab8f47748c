from django.apps import AppConfig


class StackConfig(AppConfig):
    name = "wms.stack"
