"""Answers to reports say whether the job moved, and which it is; install functions, triggers and views."""

from django.db import migrations

from wms.kernel.sql_texts import InstallTexts


class Migration(migrations.Migration):
    dependencies = [("matching", "0003_changes_of_leases")]
    operations = [InstallTexts("matching", digest="ec66a1f7577ae674c7577304ee271a4fc18549e2587a27e8858329ae26f1537d")]
