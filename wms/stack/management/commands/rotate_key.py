"""`manage.py rotate_key`: re-encrypt stored secrets under the current WMS_SECRET_KEY."""

from django.core.management.base import BaseCommand, CommandError

from wms.accounts.domain import SecurityEventKind
from wms.accounts.security_log import record
from wms.kernel import checks
from wms.kernel.secrets import UnreadableSecretsError, rotate


class Command(BaseCommand):
    help = (
        "Re-encrypt stored secrets that need a key of WMS_SECRET_KEY_FALLBACKS under WMS_SECRET_KEY; all or none. "
        "Start all servers with the new key first."
    )
    # Checks refuse a weak previous key, which this command makes superfluous.
    requires_system_checks = ()

    def handle(self, *_args: object, **_options: object) -> None:
        if flaws := [*checks.check_current_key(), *checks.check_database_version()]:
            raise CommandError(f"Nothing is encrypted under this key. {flaws[0].msg} {flaws[0].hint or ''}".rstrip())
        try:
            before = rotate()
        except UnreadableSecretsError as error:
            names = "\n".join(f"  {name}" for name in error.names)
            raise CommandError(
                f"Nothing was changed. Neither WMS_SECRET_KEY nor a key of WMS_SECRET_KEY_FALLBACKS reads:\n{names}\n"
                "Add the key under which they were encrypted to WMS_SECRET_KEY_FALLBACKS, or set them anew."
            ) from error
        record(SecurityEventKind.KEY_ROTATED, target="stored secrets", encrypted_anew=len(before.previous))
        self.stdout.write(
            f"{len(before.previous)} secrets re-encrypted, {len(before.current)} were under WMS_SECRET_KEY already."
        )
