"""`manage.py document_states`: update the state diagrams of docs/architecture.md."""

from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand

from pilots.domain import pilot
from wms.jobs.domain import lifecycle
from wms.kernel.made_parts import with_part
from wms.kernel.state_diagram import diagram_of


def documented(text: str) -> str:
    """Return docs/architecture.md with the diagrams of jobs and pilots."""
    text = with_part(text, of="Jobs", content=diagram_of(lifecycle.TRANSITIONS))
    return with_part(text, of="Pilots", content=diagram_of(pilot.TRANSITIONS))


class Command(BaseCommand):
    help = "Write the state diagrams of docs/architecture.md from the transition tables."
    requires_system_checks = ()

    def handle(self, **options: object) -> None:  # noqa: ARG002 - Django's signature
        page = Path(settings.BASE_DIR) / "docs" / "architecture.md"
        page.write_text(documented(page.read_text(encoding="utf-8")), encoding="utf-8")
        self.stdout.write(f"{page} written.")
