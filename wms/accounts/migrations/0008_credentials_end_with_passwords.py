"""Tokens and one-time links end with the password and with a suspension, and sessions with a suspension, by any door."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

#: Of the same transaction, whatever changes the row: a page, a command, the configuration file, SQL.
CREDENTIALS_END = """
CREATE FUNCTION wms_credentials_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE accounts_apitoken SET revoked_at = now() WHERE user_id = NEW.id AND revoked_at IS NULL;
    DELETE FROM accounts_passwordlink WHERE user_id = NEW.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER credentials_end AFTER UPDATE OF password, is_active ON accounts_user FOR EACH ROW
    WHEN (OLD.password IS DISTINCT FROM NEW.password OR (OLD.is_active AND NOT NEW.is_active))
    EXECUTE FUNCTION wms_credentials_end();
"""
#: Sessions hold this number. Whoever saves a row that was read before writes an old number, which does not count.
SUSPENSIONS_COUNT = """
CREATE FUNCTION wms_suspensions_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.suspensions := OLD.suspensions + (OLD.is_active AND NOT NEW.is_active)::int;
    RETURN NEW;
END
$$;
CREATE TRIGGER suspensions_count BEFORE UPDATE ON accounts_user FOR EACH ROW
    WHEN (OLD.suspensions <> NEW.suspensions OR (OLD.is_active AND NOT NEW.is_active))
    EXECUTE FUNCTION wms_suspensions_count();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0007_devices_of_failed_log_ins"),
    ]

    operations = [
        migrations.CreateModel(
            name="PasswordLink",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.BinaryField(max_length=32, unique=True)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name="apitoken",
            name="last_used_at",
            field=models.DateTimeField(blank=True, help_text="To some minutes; empty: never.", null=True),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="name",
            field=models.CharField(blank=True, help_text="What the user calls it.", max_length=100),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="scope",
            field=models.CharField(
                choices=[("read", "read"), ("submit", "submit"), ("manage", "manage")],
                default="manage",
                help_text="What it may be used for.",
                max_length=16,
            ),
        ),
        migrations.AddField(
            model_name="user",
            name="suspensions",
            field=models.PositiveIntegerField(
                default=0, editable=False, help_text="How often suspended; a trigger counts."
            ),
        ),
        migrations.AddConstraint(
            model_name="apitoken",
            constraint=models.CheckConstraint(
                condition=models.Q(("scope__in", ["read", "submit", "manage"])), name="api_token_scope_is_known"
            ),
        ),
        migrations.AddField(
            model_name="passwordlink",
            name="user",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE, related_name="password_link", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.RunSQL(CREDENTIALS_END, "DROP FUNCTION wms_credentials_end CASCADE"),
        migrations.RunSQL(SUSPENSIONS_COUNT, "DROP FUNCTION wms_suspensions_count CASCADE"),
    ]
