"""`manage.py document_settings`: write docs/settings.md."""

from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand

from wms.kernel.settings_table import settings_in, table_of


class Command(BaseCommand):
    help = "Write docs/settings.md from the comments in wms/settings.py."
    requires_system_checks = ()  # the page is also for those whose settings are refused

    def handle(self, **options: object) -> None:  # noqa: ARG002 - Django's signature
        base = Path(settings.BASE_DIR)
        source = (base / "wms" / "settings.py").read_text(encoding="utf-8")
        page = base / "docs" / "settings.md"
        page.write_text(table_of(settings_in(source)), encoding="utf-8")
        self.stdout.write(f"{page} written.")
