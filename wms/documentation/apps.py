from django.apps import AppConfig


class DocumentationConfig(AppConfig):
    name = "wms.documentation"
