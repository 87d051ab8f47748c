"""Install the functions: a claim gets the id of its lease, and writes the pilot's row only if that says something new."""

from django.db import migrations

from matching.migrations._functions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0021_jobs_on_hosts"),
        ("matching", "0024_ordinary_reports"),
    ]

    operations = [InstallFunctions(digest="eff7a407e5914e3228057efc1a1a9e50b322e88850b65c0a0d7f267bb05898bb")]
