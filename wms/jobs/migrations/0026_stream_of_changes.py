"""Number the lines of histories by their transactions, for the stream of changes (ADR 62)."""

from django.contrib.postgres.indexes import BrinIndex
from django.db import migrations, models

from wms.kernel.fields import CurrentTransaction

# The default is added apart from the column, or PostgreSQL would compute it for every line of the past and rewrite the
# table.
_ADD = """
    ALTER TABLE jobs_jobhistory ADD COLUMN transaction_number bigint;
    ALTER TABLE jobs_jobhistory ALTER COLUMN transaction_number SET DEFAULT pg_current_xact_id()::text::bigint;
"""
_REMOVE = "ALTER TABLE jobs_jobhistory DROP COLUMN transaction_number"


class Migration(migrations.Migration):
    dependencies = [("jobs", "0025_compressed_outputs")]

    operations = [
        migrations.RunSQL(
            _ADD,
            _REMOVE,
            state_operations=[
                migrations.AddField(
                    model_name="jobhistory",
                    name="transaction_number",
                    field=models.BigIntegerField(
                        db_default=CurrentTransaction(),
                        null=True,
                        editable=False,
                        help_text="Of the transaction that wrote the line; null: written before there was a stream of "
                        "changes.",
                    ),
                ),
            ],
        ),
        # Without entries for the lines of the past, so that no status waits while it is built.
        migrations.AddIndex(
            model_name="jobhistory",
            index=BrinIndex(
                name="job_history_in_order", fields=["transaction_number", "id"], pages_per_range=16, autosummarize=True
            ),
        ),
    ]
