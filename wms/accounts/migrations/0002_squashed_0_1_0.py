"""Memberships by claim refer to a table of allauth, whose first migration refers to users."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [('accounts', '0014_people_by_openid_connect')]
    dependencies = [
        ('accounts', '0001_squashed_0_1_0'),
        ('socialaccount', '0006_alter_socialaccount_extra_data'),
    ]
    operations = [
        migrations.AddField(
            model_name='membership',
            name='by_claim_of',
            field=models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='socialaccount.socialaccount'),
        ),
        migrations.AddField(
            model_name='membership',
            name='confirmed_at',
            field=models.DateTimeField(editable=False, help_text='Last log-in that confirmed it; it lapses WMS_OIDC_MEMBERSHIP_DAYS later. Empty: given by a manager.', null=True, verbose_name='confirmed by claim at'),
        ),
        migrations.AddIndex(
            model_name='membership',
            index=models.Index(condition=models.Q(('confirmed_at__isnull', False)), fields=['confirmed_at'], name='membership_by_claim'),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('by_claim_of__isnull', True), ('confirmed_at__isnull', True)), models.Q(('by_claim_of__isnull', False), ('confirmed_at__isnull', False)), _connector='OR'), name='membership_confirmed_at_set_iff_by_claim'),
        ),
    ]
