"""Install the functions: an ordinary status report or end of a lease is one statement."""

from django.db import migrations

from matching.migrations._functions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0021_jobs_on_hosts"),
        ("matching", "0023_jobs_on_hosts"),
    ]

    operations = [InstallFunctions(digest="ec993c3c6615c6302df90580fb21779fd6a5d3d6d67f36d46900b3707c7ddeb6")]
