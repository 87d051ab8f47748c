from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("pilots", "0004_setup")]
    operations = [
        migrations.AddField(
            model_name="director",
            name="requirements",
            field=models.TextField(
                blank=True,
                default="",
                help_text="ClassAd expression over the attributes of a task queue, such as GPUs > 0; it serves those for "
                "which it is TRUE; empty: all.",
            ),
        ),
        migrations.AlterField(
            model_name="director",
            name="kind",
            field=models.CharField(
                choices=[("site", "site"), ("taskqueue", "taskqueue")],
                default="site",
                help_text="What it requests for a pilot. site: a whole slot of the batch queue. taskqueue: what the jobs "
                "need, at most a slot, so that it starts sooner.",
                max_length=16,
            ),
        ),
    ]
