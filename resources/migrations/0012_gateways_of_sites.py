"""Keep what each gateway of a site advertised; the sequence is one of those, and is forgotten by this migration."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("resources", "0011_platforms_of_nodes")]

    operations = [
        migrations.AddField(
            model_name="throttlestate",
            name="gateways",
            field=models.JSONField(
                default=list, help_text="Last advertisement of each gateway; empty: the server counted itself."
            ),
        ),
        migrations.RemoveField(model_name="throttlestate", name="sequence"),
        migrations.AlterField(
            model_name="throttlestate",
            name="advertised",
            field=models.JSONField(
                default=dict,
                help_text="Numbers, by the names under which SAM advertises them; of several gateways, their sums.",
            ),
        ),
        migrations.AlterField(
            model_name="throttlestate",
            name="classad",
            field=models.TextField(
                blank=True, help_text="The advertisement, when it came in ClassAd form and from one gateway."
            ),
        ),
    ]
