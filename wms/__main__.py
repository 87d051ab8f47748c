"""``python -m wms COMMAND``, the same as ``manage.py`` and the installed ``wms-server``."""

import os
import sys

from django.core.management import execute_from_command_line

from wms.kernel.callers import current_command
from wms.kernel.clock import start_clock


def main() -> None:
    """Run one management command of the server."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wms.settings")
    start_clock()
    current_command.set(sys.argv[1] if len(sys.argv) > 1 else "")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
