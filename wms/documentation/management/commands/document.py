"""`manage.py document`: update the parts of the documents that are made from the code."""

from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from wms.documentation.pages import PARTS, documented


class Command(BaseCommand):
    help = "Write the parts of docs/ that are made from the code: settings, fields, keys, commands, error codes."
    requires_system_checks = ()  # the pages are also for those whose settings are refused

    def handle(self, **options: object) -> None:  # noqa: ARG002 - Django's signature
        docs = Path(settings.BASE_DIR) / "docs"
        if not docs.is_dir():
            raise CommandError(
                f"There is no directory {docs}: the documents are in the repository, not in an installation."
            )
        for name in PARTS:
            page = docs / name
            old = page.read_text(encoding="utf-8")
            new = documented(name, old)
            if new != old:
                page.write_text(new, encoding="utf-8")
                self.stdout.write(f"{page} written.")
