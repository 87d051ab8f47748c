"""Say where a pilot is that was made by hand for a site or a computing element."""

from django.conf import settings
from django.db import migrations, models

import pilots.models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_sharing_of_a_vo"),
        ("pilots", "0011_changes_of_computing_elements"),
        ("resources", "0007_ce_types_are_those_of_backends"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="pilot",
            name="ce",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                help_text="Computing element of such a pilot, if known.",
                null=True,
                on_delete=pilots.models.kept_by_living_pilots,
                related_name="+",
                to="resources.computingelement",
                verbose_name="computing element",
            ),
        ),
        migrations.AddField(
            model_name="pilot",
            name="site",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                help_text="Site of a pilot made by hand without a queue; none: any site that serves its VO.",
                null=True,
                on_delete=pilots.models.kept_by_living_pilots,
                related_name="+",
                to="resources.site",
            ),
        ),
        migrations.AlterField(
            model_name="pilot",
            name="queue",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                help_text="Where it runs; none: made by hand, and unknown properties of its place only narrow its offers.",
                null=True,
                on_delete=pilots.models.kept_by_living_pilots,
                related_name="pilots",
                to="resources.queue",
            ),
        ),
        migrations.AddIndex(
            model_name="pilot",
            index=models.Index(
                condition=models.Q(("site__isnull", False)), fields=["site"], name="pilot_made_for_site"
            ),
        ),
        migrations.AddIndex(
            model_name="pilot",
            index=models.Index(condition=models.Q(("ce__isnull", False)), fields=["ce"], name="pilot_made_for_ce"),
        ),
    ]
