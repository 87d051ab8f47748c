"""Add memberships by claim, and people who wait to be admitted; all that there are were given, and admitted."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0013_mail_about_submissions"),
        ("socialaccount", "0006_alter_socialaccount_extra_data"),
    ]

    operations = [
        migrations.AddField(
            model_name="membership",
            name="by_claim_of",
            field=models.ForeignKey(
                editable=False,
                null=True,
                on_delete=models.deletion.CASCADE,
                related_name="+",
                to="socialaccount.socialaccount",
            ),
        ),
        migrations.AddField(
            model_name="membership",
            name="confirmed_at",
            field=models.DateTimeField(
                editable=False,
                help_text="Last log-in that confirmed it; it lapses WMS_OIDC_MEMBERSHIP_DAYS later. Empty: given by a manager.",
                null=True,
                verbose_name="confirmed by claim at",
            ),
        ),
        migrations.AddField(
            model_name="user",
            name="waits_since",
            field=models.DateTimeField(
                blank=True,
                editable=False,
                help_text="Time of the first log-in by OpenID Connect; empty: admitted by a manager, or added by an operator.",
                null=True,
            ),
        ),
        migrations.AddIndex(
            model_name="membership",
            index=models.Index(
                condition=Q(confirmed_at__isnull=False), fields=["confirmed_at"], name="membership_by_claim"
            ),
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.CheckConstraint(
                condition=Q(by_claim_of__isnull=True, confirmed_at__isnull=True)
                | Q(by_claim_of__isnull=False, confirmed_at__isnull=False),
                name="membership_confirmed_at_set_iff_by_claim",
            ),
        ),
    ]
