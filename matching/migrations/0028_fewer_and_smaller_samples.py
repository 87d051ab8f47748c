"""Install the functions: samples of usage are fewer and smaller, and none is written for a job of a minute (ADR 63)."""

from django.db import migrations

from matching.migrations._functions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0033_fewer_and_smaller_samples"),
        ("matching", "0027_tails_and_samples_of_attempts"),
    ]

    operations = [InstallFunctions(digest="2bfb12f332cae05a1f2ed7d04a0eb9925ac9fd29e0634fab380b7a5a4a2d2693")]
