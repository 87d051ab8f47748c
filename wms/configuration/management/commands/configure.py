"""`manage.py configure FILE [--dry-run | --migrate]`: apply a configuration file to the database."""

import os
from pathlib import Path

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from wms.configuration.configure import configure
from wms.configuration.document import content_of
from wms.configuration.problems import ConfigurationError
from wms.configuration.schema import check
from wms.kernel.clock import current_time
from wms.kernel.trusted_paths import UntrustedPathError


class Command(BaseCommand):
    help = "Apply a configuration file. It is validated before anything is written; a repetition changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, help="YAML, see docs/configuration.example.yaml")
        parser.add_argument("--confirm", action="store_true", help="accept changes that stop jobs which wait or run")
        mode = parser.add_mutually_exclusive_group()
        mode.add_argument("--dry-run", action="store_true", help="print what would change, and change nothing")
        mode.add_argument("--migrate", action="store_true", help="bring the database's tables up to date first")

    def handle(self, *, file: Path, confirm: bool, dry_run: bool, migrate: bool, **_options: object) -> None:
        try:
            source = content_of(file)
        except UntrustedPathError as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror}.") from error
        try:
            if migrate:
                check(source, environ=os.environ)  # before the tables are changed
                call_command("migrate", interactive=False, verbosity=0, keep_id_mark=True)
            result = configure(source, environ=os.environ, now=current_time(), dry_run=dry_run, confirmed=confirm)
        except ConfigurationError as error:
            raise CommandError(error.about(file)) from error
        for warning in result.warnings:
            self.stderr.write(f"warning: {warning}")
        for difference in result.differences:
            self.stdout.write(difference)
        if not result.differences:
            self.stdout.write("nothing to change")
        elif dry_run:
            self.stdout.write("dry run: nothing was changed")
