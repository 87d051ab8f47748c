"""`manage.py document_errors`: update the table of error codes of docs/rest.md."""

from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand

from wms.kernel.made_parts import with_part
from wms.kernel.rest.error_codes import ERROR_CODES


def documented(text: str) -> str:
    """Return docs/rest.md with the table of all error codes."""
    rows = [f"| `{each.code}` | {each.status} | {each.meaning} | {each.remedy} |" for each in ERROR_CODES.values()]
    head = ["| code | status | meaning | what to do |", "|---|---|---|---|"]
    return with_part(text, of="Error codes", content="\n".join(["", *head, *rows, ""]))


class Command(BaseCommand):
    help = "Write the table of error codes of docs/rest.md from wms/kernel/rest/error_codes.py."
    requires_system_checks = ()

    def handle(self, **options: object) -> None:  # noqa: ARG002 - Django's signature
        page = Path(settings.BASE_DIR) / "docs" / "rest.md"
        page.write_text(documented(page.read_text(encoding="utf-8")), encoding="utf-8")
        self.stdout.write(f"{page} written.")
