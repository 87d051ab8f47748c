"""Limits, which were of ``matching``, with counters."""

import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import wms.kernel.db

#: What processes remember of them is not true any more, as 0002 says.
CONFIGURATION_CHANGES = """
CREATE TRIGGER configuration_changes AFTER INSERT OR UPDATE OR DELETE ON taskqueues_limit
    FOR EACH STATEMENT EXECUTE FUNCTION wms_configuration_changes();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_sharing_of_a_vo"),
        # Its wms_now() is a default of columns.
        ("kernel", "0001_database_clock"),
        ("resources", "0002_throttle_states"),
        ("taskqueues", "0004_deliveries"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Limit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_type", models.CharField(blank=True, max_length=255)),
                (
                    "running",
                    models.PositiveIntegerField(blank=True, help_text="Jobs held by pilots at a time.", null=True),
                ),
                ("waiting", models.PositiveIntegerField(blank=True, help_text="Jobs in queues at a time.", null=True)),
                (
                    "cpu_s_per_day",
                    models.PositiveBigIntegerField(
                        blank=True,
                        help_text="CPU time, in seconds, that jobs have reported in the last 24 hours.",
                        null=True,
                    ),
                ),
                (
                    "delay_s",
                    models.FloatField(
                        blank=True,
                        help_text="Mean seconds between two matches.",
                        null=True,
                        validators=[django.core.validators.MinValueValidator(0)],
                    ),
                ),
                (
                    "burst",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Matches at once after a pause.",
                        null=True,
                        validators=[django.core.validators.MinValueValidator(1)],
                    ),
                ),
                (
                    "ce",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="resources.computingelement",
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.group",
                    ),
                ),
                (
                    "site",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="resources.site",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "vo",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.vo",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LimitCount",
            fields=[
                (
                    "limit",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="count",
                        serialize=False,
                        to="taskqueues.limit",
                    ),
                ),
                (
                    "free_at",
                    models.DateTimeField(
                        help_text="Time at which matches that keep the delay would have caught up.", null=True
                    ),
                ),
                (
                    "cpu_s",
                    models.FloatField(default=0.0, help_text="Reported in the last 24 hours, as of the last sum."),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LimitEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("jobs_left", models.SmallIntegerField(default=0, help_text="Jobs that a pilot no longer holds.")),
                ("cpu_s", models.FloatField(default=0.0)),
                ("happened_at", models.DateTimeField(db_default=wms.kernel.db.DatabaseNow())),
                (
                    "limit",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="taskqueues.limit",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LimitHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("began_at", models.DateTimeField()),
                ("cpu_s", models.FloatField()),
                (
                    "limit",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="taskqueues.limit",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LimitSlot",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveSmallIntegerField()),
                ("part", models.IntegerField(help_text="Of the limit.")),
                ("used", models.IntegerField(help_text="Below 0 if jobs counted in another part have ended.")),
                (
                    "limit",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="slots",
                        to="taskqueues.limit",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="limit",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("running__isnull", False),
                    ("waiting__isnull", False),
                    ("cpu_s_per_day__isnull", False),
                    ("delay_s__isnull", False),
                    _connector="OR",
                ),
                name="limit_limits_something",
            ),
        ),
        migrations.AddConstraint(
            model_name="limit",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("waiting__isnull", True), models.Q(("ce__isnull", True), ("site__isnull", True)), _connector="OR"
                ),
                name="limit_on_waiting_names_no_place",
            ),
        ),
        migrations.AddIndex(
            model_name="limitevent",
            index=models.Index(fields=["limit"], name="event_of_limit"),
        ),
        migrations.AddConstraint(
            model_name="limithour",
            constraint=models.UniqueConstraint(fields=("limit", "began_at"), name="a_limit_has_each_hour_once"),
        ),
        migrations.AddConstraint(
            model_name="limitslot",
            constraint=models.UniqueConstraint(fields=("limit", "number"), name="a_limit_has_each_slot_once"),
        ),
        migrations.RunSQL(CONFIGURATION_CHANGES, migrations.RunSQL.noop),
        # Each match writes a row again: room for the new version on the same page keeps the indexes as they are.
        migrations.RunSQL("ALTER TABLE taskqueues_limitslot SET (fillfactor = 20)", migrations.RunSQL.noop),
    ]
