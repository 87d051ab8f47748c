"""The bound of a pilot's slot has amounts by name."""

from django.db import migrations
from django.db.migrations.operations.base import Operation


class Migration(migrations.Migration):
    dependencies = [("matching", "0019_one_text_of_the_functions")]

    # 0028 installs the functions.
    operations: list[Operation] = []
