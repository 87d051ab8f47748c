from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("resources", "0002_sql_texts")]
    operations = [migrations.RenameField("queue", "saying", "parameters_digest")]
