"""Install the functions as they are, of which the migrations before loaded whatever text they found (ADR 50)."""

from django.db import migrations

from matching.migrations._functions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0010_invitations"),
        ("jobs", "0014_index_of_outputs"),
        ("kernel", "0001_database_clock"),
        ("matching", "0018_claims_within_the_slot"),
        ("pilots", "0014_pilots_that_died"),
        ("resources", "0018_registration_tokens_in_use_expire"),
        ("taskqueues", "0015_indexes_of_avoided_places"),
    ]

    operations = [InstallFunctions(digest="584dc45cf9970a0a2c23e834a9df95ef8b5e1e2c9e5608be2dad85614c1d8801")]
