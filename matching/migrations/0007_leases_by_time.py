from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("matching", "0006_claims_trust_searches")]
    operations = [
        migrations.AddIndex("match", models.Index(fields=["leased_at"], name="match_leased")),
    ]
