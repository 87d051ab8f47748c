from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("pilots", "0002_unused_indexes")]
    operations = [migrations.RenameField("cehealth", "doubts", "shortfalls")]
