"""Have claims give a pilot no more at once than its slot has, whatever it offers."""

from django.db import migrations

from matching.migrations._functions import LOAD


class Migration(migrations.Migration):
    dependencies = [("matching", "0017_leases_that_a_death_ended")]

    operations = [*LOAD]
