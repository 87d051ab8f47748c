"""Install the functions: a claim gets the id of its lease, and writes the pilot's row only if that says something new."""

from django.db import migrations

from matching.migrations._functions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0021_jobs_on_hosts"),
        ("matching", "0024_ordinary_reports"),
    ]

    operations = [InstallFunctions(digest="0eb82c4210d24ed0413801e8ff13da90ffdfa82488be7865e5aef29a81a26433")]
