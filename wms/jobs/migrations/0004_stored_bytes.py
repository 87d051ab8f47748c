"""Count the bytes that users have stored; install functions, triggers and views."""

from django.conf import settings
from django.db import migrations, models

from wms.kernel.sql_texts import InstallTexts


class Migration(migrations.Migration):
    dependencies = [("jobs", "0003_made_today"), ("accounts", "0003_sql_texts")]
    operations = [
        migrations.AddField(
            model_name="sandboxupload",
            name="vo",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                help_text="Of the job; of another upload, that of its owner's default group.",
                null=True,
                on_delete=models.DO_NOTHING,
                related_name="+",
                to="accounts.vo",
            ),
        ),
        migrations.AlterField(
            model_name="sandboxupload",
            name="is_output",
            field=models.BooleanField(default=False, help_text="Of a job, stored by its pilot."),
        ),
        migrations.CreateModel(
            name="StoredBytes",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("input_bytes", models.BigIntegerField()),
                ("output_bytes", models.BigIntegerField(help_text="Of outputs of jobs.")),
                (
                    "owner",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=models.DO_NOTHING,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "vo",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=models.DO_NOTHING,
                        related_name="+",
                        to="accounts.vo",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "stored bytes",
                "indexes": [models.Index(fields=["vo"], name="stored_bytes_of_vo")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "vo"), name="stored_bytes_of_a_user_in_a_vo_are_one_row", nulls_distinct=False
                    )
                ],
            },
        ),
        InstallTexts("jobs", digest="3577600df7040600752818f232509d16c55281c440bf9a8c32cea3f99f7fd380"),
    ]
