"""All migrations up to version 0.1.0 in one: made by makemigrations, but for statements in SQL (CONTRIBUTING.md)."""

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import pilots.domain.pilot
import pilots.models
import re
from django.conf import settings
from django.db import migrations, models

from wms.kernel.squashed import CreateModels


class Migration(migrations.Migration):
    replaces = [
        ('pilots', '0001_initial'),
        ('pilots', '0002_last_answer'),
        ('pilots', '0003_constraints_that_cost_little'),
        ('pilots', '0004_directors_on_celery'),
        ('pilots', '0005_pilot_log'),
        ('pilots', '0006_what_is_known_of_nodes'),
        ('pilots', '0007_living_pilots_keep_their_queue'),
        ('pilots', '0008_doubts_of_computing_elements'),
        ('pilots', '0009_stalled_pilots_that_end'),
        ('pilots', '0010_pilot_stalled_at'),
        ('pilots', '0011_changes_of_computing_elements'),
        ('pilots', '0012_place_of_pilots_made_by_hand'),
        ('pilots', '0013_composed_job_types'),
        ('pilots', '0014_pilots_that_died'),
        ('pilots', '0015_plain_help_texts'),
        ('pilots', '0016_indexes_that_no_query_uses'),
    ]
    initial = True
    dependencies = [
        ('accounts', '0001_squashed_0_1_0'),
        ('resources', '0001_squashed_0_1_0'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        CreateModels([
            migrations.CreateModel(
                name='CEHealth',
                fields=[
                    ('ce', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='health', serialize=False, to='resources.computingelement')),
                    ('busy_until', models.DateTimeField(blank=True, help_text='Until then a round is marked as under way; afterwards another may begin.', null=True)),
                    ('asked_at', models.DateTimeField(blank=True, help_text='Last answer.', null=True)),
                    ('free_slots', models.PositiveIntegerField(blank=True, help_text='Pilots that it could take at its last answer.', null=True)),
                    ('failures', models.PositiveIntegerField(default=0, help_text='Consecutive failed rounds.')),
                    ('ask_after', models.DateTimeField(blank=True, help_text='Until then it has no rounds.', null=True)),
                    ('send_after', models.DateTimeField(blank=True, help_text='Until then no pilots are sent.', null=True)),
                    ('trouble', models.CharField(blank=True, help_text='Why it has no rounds, or gets no pilots.', max_length=500)),
                    ('doubts', models.TextField(blank=True, help_text='Slots of its queues that it does not provide.')),
                    ('described_as', models.CharField(blank=True, editable=False, help_text='Digest of its options, state and queues at the last check.', max_length=64)),
                    ('judged_from', models.DateTimeField(blank=True, help_text='Failures of pilots submitted earlier do not count: it was changed, or an operator ended the pause.', null=True)),
                    ('stalls', models.TextField(blank=True, help_text='Which of its queues get no pilots now, because some did not start there.')),
                ],
                options={
                    'verbose_name': 'health of a computing element',
                    'verbose_name_plural': 'health of computing elements',
                },
            ),
            migrations.CreateModel(
                name='DirectorRun',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('ran_at', models.DateTimeField()),
                    ('running_since', models.DateTimeField()),
                ],
            ),
            migrations.CreateModel(
                name='BlackHole',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('host_name', models.CharField(max_length=255)),
                    ('found_at', models.DateTimeField()),
                    ('until', models.DateTimeField(help_text='End of the period without jobs.')),
                    ('fetched', models.PositiveIntegerField(help_text='Leases that had ended there within the hour.')),
                    ('failed', models.PositiveIntegerField(help_text='Those of them that had ended badly and fast.')),
                    ('reason', models.CharField(max_length=255)),
                    ('lifted_at', models.DateTimeField(blank=True, help_text='When it got jobs again: its time was over, or somebody lifted it.', null=True)),
                    ('lifted_by', models.CharField(blank=True, help_text='Who lifted it; empty: its time was over.', max_length=150)),
                    ('site', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='black_holes', to='resources.site')),
                ],
                options={
                    'indexes': [models.Index(fields=['site', 'host_name', '-found_at'], name='black_hole_of_host')],
                    'constraints': [models.UniqueConstraint(condition=models.Q(('lifted_at__isnull', True)), fields=('site', 'host_name'), name='a_host_is_one_black_hole_at_a_time'), models.CheckConstraint(condition=models.Q(('until__gt', models.F('found_at'))), name='black_hole_ends_after_it_was_found'), models.CheckConstraint(condition=models.Q(('failed__lte', models.F('fetched'))), name='black_hole_failed_no_more_than_it_fetched')],
                },
            ),
            migrations.CreateModel(
                name='Pilot',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('stamp', models.CharField(blank=True, help_text='Name given by its submitter or batch system.', max_length=128)),
                    ('batch_id', models.CharField(blank=True, help_text='Id in its batch system; empty until accepted there.', max_length=255)),
                    ('status', models.CharField(choices=[(pilots.domain.pilot.PilotStatus['SUBMITTED'], pilots.domain.pilot.PilotStatus['SUBMITTED']), (pilots.domain.pilot.PilotStatus['WAITING'], pilots.domain.pilot.PilotStatus['WAITING']), (pilots.domain.pilot.PilotStatus['RUNNING'], pilots.domain.pilot.PilotStatus['RUNNING']), (pilots.domain.pilot.PilotStatus['STALLED'], pilots.domain.pilot.PilotStatus['STALLED']), (pilots.domain.pilot.PilotStatus['LOST'], pilots.domain.pilot.PilotStatus['LOST']), (pilots.domain.pilot.PilotStatus['DONE'], pilots.domain.pilot.PilotStatus['DONE']), (pilots.domain.pilot.PilotStatus['FAILED'], pilots.domain.pilot.PilotStatus['FAILED']), (pilots.domain.pilot.PilotStatus['ABORTED'], pilots.domain.pilot.PilotStatus['ABORTED'])], default=pilots.domain.pilot.PilotStatus['SUBMITTED'], max_length=16)),
                    ('status_reason', models.CharField(blank=True, max_length=255)),
                    ('host_name', models.CharField(blank=True, max_length=255)),
                    ('node', models.JSONField(blank=True, default=dict, help_text='Result of the node check.')),
                    ('submitted_at', models.DateTimeField()),
                    ('started_at', models.DateTimeField(blank=True, null=True)),
                    ('last_seen_at', models.DateTimeField(blank=True, null=True)),
                    ('matched_at', models.DateTimeField(blank=True, null=True)),
                    ('ended_at', models.DateTimeField(blank=True, null=True)),
                    ('revoked_at', models.DateTimeField(blank=True, help_text='Since then its token is not valid.', null=True)),
                    ('group', models.ForeignKey(blank=True, help_text='None: a generic pilot.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='private_pilots', to='accounts.group')),
                    ('owner', models.ForeignKey(blank=True, help_text='Owner of a private pilot.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='private_pilots', to=settings.AUTH_USER_MODEL)),
                    ('queue', models.ForeignKey(blank=True, db_index=False, help_text='Its queue; none: made by hand, and unknown properties of its place only narrow its offers.', null=True, on_delete=pilots.models.kept_by_living_pilots, related_name='pilots', to='resources.queue')),
                    ('vo', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='pilots', to='accounts.vo')),
                    ('answered_request_id', models.UUIDField(blank=True, editable=False, help_text='Request id of the last offer that got fewer jobs than it had room for.', null=True)),
                    ('nothing_at', models.DateTimeField(blank=True, help_text='Last empty match.', null=True)),
                    ('nothing_left', models.JSONField(blank=True, help_text='Number of task queues left by each condition at the last empty match.', null=True)),
                    ('cleaned_at', models.DateTimeField(blank=True, editable=False, help_text='When its files at the CE were removed.', null=True)),
                    ('slot', models.JSONField(blank=True, default=dict, help_text='Resources requested from the batch system.')),
                    ('tried_at', models.DateTimeField(blank=True, help_text='First attempt to submit it to its CE.', null=True)),
                    ('drain_reason', models.CharField(blank=True, max_length=255)),
                    ('drain_told_at', models.DateTimeField(blank=True, editable=False, help_text='When its drain commands were written, if it had jobs.', null=True)),
                    ('drained_at', models.DateTimeField(blank=True, help_text='Since then it gets no new job; it ends after those that it has.', null=True)),
                    ('black_hole', models.ForeignKey(blank=True, db_constraint=False, db_index=False, help_text='Its host is a black hole, so it gets no jobs.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='pilots.blackhole')),
                    ('stalled_at', models.DateTimeField(blank=True, help_text='When its status became Stalled: it had not started in time.', null=True)),
                    ('ce', models.ForeignKey(blank=True, db_index=False, help_text='Computing element of such a pilot, if known.', null=True, on_delete=pilots.models.kept_by_living_pilots, related_name='+', to='resources.computingelement', verbose_name='computing element')),
                    ('site', models.ForeignKey(blank=True, db_index=False, help_text='Site of a pilot made by hand without a queue; none: any site that serves its VO.', null=True, on_delete=pilots.models.kept_by_living_pilots, related_name='+', to='resources.site')),
                    ('died', models.BooleanField(db_default=False, default=False, editable=False, help_text='Whether it ended as if killed, though neither its batch system nor the server killed it.')),
                ],
                options={
                    'indexes': [models.Index(condition=models.Q(('ended_at__isnull', True)), fields=['queue'], name='pilot_alive_at_queue'), models.Index(condition=models.Q(('cleaned_at', None)), fields=['queue', 'ended_at'], name='pilot_not_cleaned_at_queue'), models.Index(fields=['submitted_at'], name='pilot_submitted_at'), models.Index(fields=['queue', '-id'], name='pilot_latest_at_queue'), models.Index(condition=models.Q(('stalled_at__isnull', False)), fields=['stalled_at'], name='pilot_stalled_at'), models.Index(condition=models.Q(('site__isnull', False)), fields=['site'], name='pilot_made_for_site'), models.Index(condition=models.Q(('ce__isnull', False)), fields=['ce'], name='pilot_made_for_ce'), models.Index(condition=models.Q(('host_name', ''), _negated=True), fields=['host_name', '-id'], name='pilot_latest_on_host')],
                    'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', False), ('status__one_of', [pilots.domain.pilot.PilotStatus['ABORTED'], pilots.domain.pilot.PilotStatus['DONE'], pilots.domain.pilot.PilotStatus['FAILED'], pilots.domain.pilot.PilotStatus['LOST'], pilots.domain.pilot.PilotStatus['STALLED']])), models.Q(('ended_at__isnull', True), ('status__one_of', [pilots.domain.pilot.PilotStatus['RUNNING'], pilots.domain.pilot.PilotStatus['STALLED'], pilots.domain.pilot.PilotStatus['SUBMITTED'], pilots.domain.pilot.PilotStatus['WAITING']])), _connector='OR'), name='pilot_status_is_known_and_ended_at_set_iff_ended'), models.CheckConstraint(condition=models.Q(('owner__isnull', True), ('group__isnull', False), _connector='OR'), name='pilot_with_an_owner_has_a_group')],
                },
            ),
            migrations.CreateModel(
                name='PilotLog',
                fields=[
                    ('pilot', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='log', serialize=False, to='pilots.pilot')),
                    ('received', models.BigIntegerField(default=0, help_text='Characters received, plus those the pilot reported lost.')),
                    ('batch_output', models.TextField(blank=True, help_text='Output kept by its batch system, of a pilot that could not send its log.')),
                    ('changed_at', models.DateTimeField()),
                ],
                options={
                    'indexes': [models.Index(fields=['changed_at'], name='pilot_log_by_age')],
                },
            ),
            migrations.CreateModel(
                name='PilotLogPart',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('log', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='parts', to='pilots.pilotlog')),
                    ('offset', models.BigIntegerField()),
                    ('text', models.TextField()),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('log', 'offset'), name='a_part_of_a_pilots_log_is_kept_once')],
                },
            ),
            migrations.CreateModel(
                name='Director',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.CharField(max_length=64, unique=True, validators=[django.core.validators.RegexValidator(re.compile('[A-Za-z0-9_][A-Za-z0-9_.:@+-]*\\Z'), 'Use letters, digits and . _ : @ + - only, and begin with a letter, a digit or _.')])),
                    ('kind', models.CharField(choices=[('site', 'site'), ('taskqueue', 'taskqueue')], default='site', max_length=16)),
                    ('job_types', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), blank=True, default=list, help_text='Job types of a dedicated facility; empty: all.', size=None)),
                    ('pilots_per_cycle', models.PositiveIntegerField(default=40, validators=[django.core.validators.MinValueValidator(1)])),
                    ('private_fraction', models.FloatField(default=0.0, validators=[django.core.validators.MinValueValidator(0.0), django.core.validators.MaxValueValidator(1.0)])),
                    ('sites', models.ManyToManyField(blank=True, help_text='Sites to which it sends pilots; none chosen: all.', related_name='directors', to='resources.site')),
                ],
                options={
                    'constraints': [models.CheckConstraint(condition=models.Q(('private_fraction__range', (0, 1))), name='director_private_fraction_is_0_to_1')],
                },
            ),
            migrations.CreateModel(
                name='PilotSecret',
                fields=[
                    ('pilot', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='secret', serialize=False, to='pilots.pilot')),
                    ('digest', models.BinaryField(max_length=32, unique=True)),
                    ('expires_at', models.DateTimeField()),
                    ('used_at', models.DateTimeField(blank=True, null=True)),
                ],
            ),
        ]),
        # Room in each page for the next version of a row: a match and a heartbeat touch no indexed column, and then
        # write no index.
        migrations.RunSQL('ALTER TABLE pilots_pilot SET (fillfactor = 80)', migrations.RunSQL.noop),
    ]
