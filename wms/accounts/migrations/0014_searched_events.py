from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0013_outputs_for_sites"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="securityevent",
            index=models.Index(fields=["actor_name"], name="security_event_by_actor"),
        ),
        migrations.AddIndex(
            model_name="securityevent",
            index=models.Index(fields=["address"], name="security_event_by_address", opclasses=["varchar_pattern_ops"]),
        ),
        migrations.AddIndex(
            model_name="securityevent",
            index=models.Index(fields=["target"], name="security_event_by_target", opclasses=["varchar_pattern_ops"]),
        ),
    ]
