import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0009_administer_scope"),
    ]

    operations = [
        migrations.CreateModel(
            name="ConfigurationChange",
            fields=[],
            options={
                "verbose_name": "change",
                "verbose_name_plural": "changes",
                "proxy": True,
                "indexes": [],
                "constraints": [],
            },
            bases=("accounts.securityevent",),
        ),
        migrations.AlterModelOptions(
            name="apitoken",
            options={"verbose_name": "API token"},
        ),
        migrations.AddField(
            model_name="securityevent",
            name="row_id",
            field=models.CharField(blank=True, db_default="", editable=False, max_length=64),
        ),
        migrations.AddField(
            model_name="securityevent",
            name="row_type",
            field=models.CharField(blank=True, db_default="", editable=False, max_length=64),
        ),
        migrations.AddField(
            model_name="securityevent",
            name="vo_ids",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.BigIntegerField(), editable=False, null=True, size=None
            ),
        ),
        migrations.AlterField(
            model_name="group",
            name="vo",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="groups", to="accounts.vo", verbose_name="VO"
            ),
        ),
        migrations.AddIndex(
            model_name="securityevent",
            index=models.Index(
                condition=models.Q(("row_type", ""), _negated=True),
                fields=["row_type", "row_id", "id"],
                name="security_event_by_row",
            ),
        ),
        migrations.AddIndex(
            model_name="securityevent",
            index=models.Index(
                condition=models.Q(("vo_ids__isnull", False)), fields=["id"], name="security_event_of_vos"
            ),
        ),
    ]
