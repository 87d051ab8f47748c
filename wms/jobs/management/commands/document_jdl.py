"""`manage.py document_jdl`: write docs/jdl.md."""

from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand

from wms.jobs.domain.jdl_page import page


class Command(BaseCommand):
    help = "Write docs/jdl.md from the table of attributes."
    requires_system_checks = ()  # it reads only the table

    def handle(self, **options: object) -> None:  # noqa: ARG002 - Django's signature
        path = Path(settings.BASE_DIR) / "docs" / "jdl.md"
        path.write_text(page(), encoding="utf-8")
        self.stdout.write(f"{path} written.")
