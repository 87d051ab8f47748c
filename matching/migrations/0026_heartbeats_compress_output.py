"""Install the functions: a heartbeat gets the last lines of output compressed."""

from django.db import migrations

from matching.migrations._functions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0025_compressed_outputs"),
        ("matching", "0025_claims_write_pilots_rarely"),
    ]

    operations = [InstallFunctions(digest="602608bc8d6648e3394272dbd3fdb2027fadcf8ed49cb9419f6e076b462be11a")]
