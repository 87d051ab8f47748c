"""``python -m wms COMMAND``, the same as ``manage.py`` and the installed ``wms-server``."""

import os
import sys

from django.core.management import execute_from_command_line
from django.db.utils import Error as DatabaseError

from wms.kernel.callers import current_command
from wms.kernel.clock import start_clock
from wms.kernel.db import is_database_away
from wms.kernel.trusted_paths import UntrustedPathError


def main() -> None:
    """Run one management command of the server."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wms.settings")
    start_clock()
    current_command.set(sys.argv[1] if len(sys.argv) > 1 else "")
    try:
        execute_from_command_line(sys.argv)
    except UntrustedPathError as error:  # by the settings, or a command
        sys.exit(f"CommandError: {error}")
    except DatabaseError as error:
        if not is_database_away(error):
            raise
        sys.exit(f"The database is away: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main()
