#!/usr/bin/env python
"""The command line of the project: `uv run manage.py help`."""

import os
import sys

from django.core.management import execute_from_command_line

from wms.kernel.callers import current_command

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wms.settings")
    current_command.set(sys.argv[1] if len(sys.argv) > 1 else "")
    execute_from_command_line(sys.argv)
