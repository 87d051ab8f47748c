"""Models get plain names; their tables keep the names that they have."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("taskqueues", "0015_indexes_of_avoided_places")]

    operations = [
        migrations.AlterModelTable("delivery", "taskqueues_delivery"),
        migrations.RenameModel("Delivery", "UsageInterval"),
        migrations.AlterModelOptions("usageinterval", {}),
        migrations.AlterModelTable("deliverycount", "taskqueues_deliverycount"),
        migrations.RenameModel("DeliveryCount", "UsageCounter"),
        migrations.RenameModel("Membership", "PoolQueue"),
    ]
