import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0010_history"),
        ("pilots", "0006_cut_usage"),
    ]

    operations = [
        migrations.AlterField(
            model_name="pilot",
            name="vo",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="pilots", to="accounts.vo", verbose_name="VO"
            ),
        ),
    ]
