import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0010_history"),
        ("resources", "0007_vos_of_earlier_tokens"),
        ("taskqueues", "0002_sql_texts"),
    ]

    operations = [
        migrations.AlterField(
            model_name="limit",
            name="ce",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="resources.computingelement",
                verbose_name="CE",
            ),
        ),
        migrations.AlterField(
            model_name="limit",
            name="vo",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="accounts.vo",
                verbose_name="VO",
            ),
        ),
        migrations.AlterField(
            model_name="submitpool",
            name="vo",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="submit_pools",
                to="accounts.vo",
                verbose_name="VO",
            ),
        ),
        migrations.AlterField(
            model_name="taskqueue",
            name="vo",
            field=models.ForeignKey(
                help_text="VO of the group.",
                on_delete=django.db.models.deletion.PROTECT,
                related_name="task_queues",
                to="accounts.vo",
                verbose_name="VO",
            ),
        ),
    ]
