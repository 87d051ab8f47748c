from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("operations", "0002_id_mark")]

    operations = [
        migrations.CreateModel(
            name="LastBackup",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("finished_at", models.DateTimeField(help_text="By the database's clock.")),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="last_backup_has_one_row")],
            },
        ),
    ]
