"""The clock by which leases, delays, advertisements and expiry are measured (docs/architecture.md, Time)."""

from django.db import migrations


class Migration(migrations.Migration):
    """Create ``wms_now()``: the statement's time, moved by the setting that only tests use."""

    initial = True
    dependencies = []
    operations = [
        migrations.RunSQL(
            sql="""
            CREATE FUNCTION wms_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
                SELECT statement_timestamp()
                     + make_interval(secs => coalesce(nullif(current_setting('wms.clock_offset_s', true), ''), '0')
                                             ::double precision)
            $$
            """,
            reverse_sql="DROP FUNCTION wms_now()",
        )
    ]
