"""Count what a site's token registers, and let it expire."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("resources", "0016_deleted_vos_open_nothing")]

    operations = [
        migrations.AddField(
            model_name="sitetoken",
            name="expires_at",
            field=models.DateTimeField(
                blank=True, help_text="End of its validity; empty: it does not expire.", null=True
            ),
        ),
        migrations.AddField(
            model_name="sitetoken",
            name="registrations",
            field=models.PositiveIntegerField(default=0, help_text="Pilots that were registered with it."),
        ),
        migrations.AddField(
            model_name="sitetoken",
            name="registered_at",
            field=models.DateTimeField(blank=True, help_text="Last registration with it.", null=True),
        ),
    ]
