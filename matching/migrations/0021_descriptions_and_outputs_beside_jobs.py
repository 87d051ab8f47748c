"""Install the functions: descriptions and outputs of jobs are in tables of their own (ADR 57)."""

from django.db import migrations

from matching.migrations._functions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0018_narrow_jobs"),
        ("matching", "0020_claims_read_any_amount_of_the_slot"),
    ]

    operations = [InstallFunctions(digest="e5e956e95273ce05ecc5371da695b150068f501febd4bc33260a0b9abb206977")]
