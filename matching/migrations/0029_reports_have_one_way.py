"""Install the functions: those of reports process every report, whatever the state of lease and job (ADR 70)."""

from django.db import migrations

from matching.migrations._functions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [("matching", "0028_fewer_and_smaller_samples")]

    operations = [InstallFunctions(digest="0b2f14ad89fccafc8eecae3f8a4f6cd034412b427ad482ba0da441b5156296fe")]
