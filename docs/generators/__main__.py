"""``python -m docs.generators``: write the pictures and the parts of pages that are made from the code."""

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wms.settings")
django.setup()

from docs.generators.pages import DOCS, update  # noqa: E402 - models are imported after the setup

for path in update(DOCS):
    sys.stdout.write(f"{path} written.\n")
