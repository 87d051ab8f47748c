"""`manage.py demo`: the whole system with a sample VO and real jobs."""

from argparse import ArgumentParser
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from wms.demo.running import demonstrate
from wms.stack.errors import StackError
from wms.stack.management.commands.up import port as port_number


class Command(BaseCommand):
    help = "Run the whole system with a sample VO and real jobs, show how they end, and stay until Ctrl-C."
    # The checks need servers that do not run yet; each child runs them itself.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--exit", action="store_true", help="end with the jobs: 0 when every one ended as it should, else 1"
        )
        parser.add_argument(
            "--port", type=port_number, default=8000, metavar="P", help="where the web server listens (default: 8000)"
        )
        parser.add_argument(
            "--data-dir", type=Path, default=settings.WMS_DATA_DIR, metavar="D", help="(default: %(default)s)"
        )

    def handle(self, *, exit: bool, port: int, data_dir: Path, **_options: object) -> None:  # noqa: A002 - the contract's
        try:
            demonstrate(project=settings.BASE_DIR, data=data_dir, port=port, stay=not exit)
        except StackError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:  # before the supervisor handled signals: nothing was started yet
            if exit:
                raise CommandError("Interrupted.") from None
