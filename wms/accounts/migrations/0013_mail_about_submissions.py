"""Add the users' choice of mail about their submissions; nobody gets any without having chosen so."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0012_indexes_that_no_query_uses")]

    operations = [
        migrations.AddField(
            model_name="user",
            name="mail_when",
            field=models.CharField(
                choices=[("never", "never"), ("ended", "ended"), ("failed", "failed")],
                default="never",
                editable=False,
                help_text="When mail about a submission of the user is sent; chosen by the user.",
                max_length=8,
            ),
        ),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.CheckConstraint(
                condition=models.Q(mail_when__in=["never", "ended", "failed"]), name="user_mail_when_is_known"
            ),
        ),
    ]
