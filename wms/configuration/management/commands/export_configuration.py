"""`manage.py export_configuration`: print the configuration as a file that reproduces it."""

from django.core.management.base import BaseCommand

from wms.configuration.export import export


class Command(BaseCommand):
    help = "Print the whole configuration as YAML, without secrets."

    def handle(self, *_args: object, **_options: object) -> None:
        self.stdout.write(export(), ending="")
