"""`manage.py document`: update the parts of the documents that are made from the code."""

from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand

from wms.documentation.pages import PARTS, documented


class Command(BaseCommand):
    help = "Write the parts of docs/ that are made from the code: settings, fields, keys, commands, error codes."
    requires_system_checks = ()  # the pages are also for those whose settings are refused

    def handle(self, **options: object) -> None:  # noqa: ARG002 - Django's signature
        for name in PARTS:
            page = Path(settings.BASE_DIR) / "docs" / name
            old = page.read_text(encoding="utf-8")
            new = documented(name, old)
            if new != old:
                page.write_text(new, encoding="utf-8")
                self.stdout.write(f"{page} written.")
