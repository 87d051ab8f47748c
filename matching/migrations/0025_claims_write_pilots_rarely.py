"""Install the functions: a claim gets the id of its lease, and writes the pilot's row only if that says something new."""

from django.db import migrations

from matching.migrations._functions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0024_indexes_that_no_query_uses"),
        ("matching", "0024_ordinary_reports"),
    ]

    operations = [InstallFunctions(digest="38bcdcb2841557c311799ef3f1a5c4f99b024db8bcda90cc7818992d8c354aaa")]
