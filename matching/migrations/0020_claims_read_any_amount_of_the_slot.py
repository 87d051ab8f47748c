"""Install the functions: the bound of a pilot's slot has amounts by name."""

from django.db import migrations

from matching.migrations._functions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [("matching", "0019_one_text_of_the_functions")]

    operations = [InstallFunctions(digest="ad3c3263279f83bf94ca45e5c05847b22b2301833c478570d7246e70fd002b73")]
