"""All migrations up to version 0.1.0 in one: made by makemigrations, but for statements in SQL (CONTRIBUTING.md)."""

from pathlib import Path

from django.db import migrations, models

_CLOCK = Path(__file__).parents[1] / 'sql' / 'clock.sql'


class Migration(migrations.Migration):
    replaces = [
        ('kernel', '0001_database_clock'),
        ('kernel', '0002_pulse'),
        ('kernel', '0003_indexes_that_no_query_uses'),
    ]
    initial = True
    dependencies = []
    operations = [
        # Defaults of columns call it.
        migrations.RunSQL(_CLOCK.read_text(encoding='utf-8'), migrations.RunSQL.noop),
        migrations.CreateModel(
            name='Pulse',
            fields=[
                ('name', models.CharField(max_length=32, primary_key=True, serialize=False)),
                ('beaten_at', models.DateTimeField()),
            ],
        ),
    ]
