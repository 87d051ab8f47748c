"""Storage elements serve the VOs that they name; those that exist serve nobody until they are named (ADR 42)."""

import sys

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def print_elements(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
    """Print the storage elements that serve nobody from now on, and what to do."""
    names = list(apps.get_model("resources", "StorageElement").objects.order_by("name").values_list("name", flat=True))
    if names:
        sys.stdout.write(
            f"\n    These storage elements serve nobody until you name their VOs by vos, and pilots get no credential of "
            f"theirs until you set credential_for_pilots, in the admin or the configuration file: {', '.join(names)}.\n"
        )


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_initial"),
        ("resources", "0014_a_computing_element_names_its_type"),
    ]

    operations = [
        migrations.AddField(
            model_name="storageelement",
            name="credential_for_pilots",
            field=models.BooleanField(
                default=False,
                help_text="Pilots with a job that has files here are given the credential, with which they may read and write whatever it opens. Otherwise they get none.",
            ),
        ),
        migrations.AddField(
            model_name="storageelement",
            name="vos",
            field=models.ManyToManyField(
                blank=True,
                help_text="Served; none chosen: nobody.",
                related_name="storage_elements",
                to="accounts.vo",
                verbose_name="VOs",
            ),
        ),
        migrations.RunPython(print_elements, migrations.RunPython.noop),
    ]
