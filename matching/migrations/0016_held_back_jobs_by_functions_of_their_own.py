"""Have claims read jobs that are held back by functions of their own: what these forbid would slow down the rest."""

from django.db import migrations

from matching.migrations._functions import LOAD


class Migration(migrations.Migration):
    dependencies = [("matching", "0015_claims_pass_over_avoided_places")]

    operations = [*LOAD]
