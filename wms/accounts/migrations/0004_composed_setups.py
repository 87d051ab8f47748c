"""Write setups in NFC, in which they are compared."""

from django.db import migrations

COMPOSE = """
UPDATE accounts_vo
   SET setup = normalize(setup, NFC),
       setups = ARRAY(SELECT DISTINCT normalize(name, NFC) COLLATE "C" FROM unnest(setups) AS name ORDER BY 1)
 WHERE (setup || array_to_string(setups, ' ')) IS NOT NFC NORMALIZED;
"""


class Migration(migrations.Migration):
    dependencies = [("accounts", "0003_stall_rule_of_a_vo")]

    operations = [migrations.RunSQL(COMPOSE, migrations.RunSQL.noop)]
