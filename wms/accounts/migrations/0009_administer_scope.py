from django.db import migrations, models

SCOPES = ["read", "submit", "manage", "administer"]


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0008_pause"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="apitoken",
            name="api_token_scope_is_known",
        ),
        migrations.AlterField(
            model_name="apitoken",
            name="scope",
            field=models.CharField(
                choices=[(scope, scope) for scope in SCOPES],
                default="manage",
                help_text="Scope of the token: the requests that it allows.",
                max_length=16,
            ),
        ),
        migrations.AddConstraint(
            model_name="apitoken",
            constraint=models.CheckConstraint(
                condition=models.Q(("scope__in", SCOPES)), name="api_token_scope_is_known"
            ),
        ),
    ]
