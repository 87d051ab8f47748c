from django.apps import AppConfig

from wms.kernel import checks


class KernelConfig(AppConfig):
    name = "wms.kernel"
    checks = checks  # the import registers them
