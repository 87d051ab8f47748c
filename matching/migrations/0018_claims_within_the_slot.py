"""Have claims give a pilot no more at once than its slot has, whatever it offers."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("matching", "0017_leases_that_a_death_ended")]

    operations = []  # functions are installed by the newest migration that changed one (ADR 50)
