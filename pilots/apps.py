from django.apps import AppConfig


class PilotsConfig(AppConfig):
    name = "pilots"
