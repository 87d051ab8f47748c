"""Where files are: replicas, and the marks that something about them has changed."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_sharing_of_a_vo"),
        ("resources", "0003_wall_time_gpus_disk_container"),
    ]

    operations = [
        migrations.AlterField(
            model_name="storageelement",
            name="url",
            field=models.CharField(
                help_text="file:// or https://; a file is kept at this, with its logical name after it.",
                max_length=500,
                verbose_name="URL",
            ),
        ),
        migrations.CreateModel(
            name="ReplicaChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("lfn", models.CharField(blank=True, help_text="Empty: any file.", max_length=255)),
                ("looked_at", models.DateTimeField(help_text="First re-evaluation.", null=True)),
                (
                    "job_id",
                    models.BigIntegerField(default=0, help_text="Last processed job, if there are many."),
                ),
                (
                    "vo",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        help_text="Null: all.",
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="accounts.vo",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Replica",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "lfn",
                    models.CharField(
                        db_collation="C", help_text="Logical file name.", max_length=255, verbose_name="LFN"
                    ),
                ),
                ("size_bytes", models.PositiveBigIntegerField(help_text="Empty: not told.", null=True)),
                (
                    "checksum",
                    models.CharField(blank=True, help_text="adler32:… or sha256:…; empty: not told.", max_length=71),
                ),
                (
                    "storage_element",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="resources.storageelement",
                    ),
                ),
                (
                    "vo",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="accounts.vo",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("vo", "lfn", "storage_element"), name="a_storage_element_holds_a_file_of_a_vo_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("lfn__startswith", "/")), name="replica_lfn_is_an_absolute_path"
                    ),
                ],
            },
        ),
    ]
