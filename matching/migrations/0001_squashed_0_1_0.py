"""All migrations up to version 0.1.0 in one: made by makemigrations, but for statements in SQL (CONTRIBUTING.md)."""

import django.db.models.deletion
import uuid
import wms.jobs.domain.lifecycle
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ('matching', '0001_initial'),
        ('matching', '0002_claim'),
        ('matching', '0003_ended_leases'),
        ('matching', '0004_what_the_claim_writes'),
        ('matching', '0005_throttles_and_limits'),
        ('matching', '0006_functions'),
        ('matching', '0007_heartbeat'),
        ('matching', '0008_drained_pilots_and_black_holes'),
        ('matching', '0009_shorter_heartbeat'),
        ('matching', '0010_unknown_places'),
        ('matching', '0011_owners_who_are_members'),
        ('matching', '0012_claims_and_jobs_held_back'),
        ('matching', '0013_match_whose_job_is_at_fault'),
        ('matching', '0014_claims_lock_throttles'),
        ('matching', '0015_claims_pass_over_avoided_places'),
        ('matching', '0016_held_back_jobs_by_functions_of_their_own'),
        ('matching', '0017_leases_that_a_death_ended'),
        ('matching', '0018_claims_within_the_slot'),
        ('matching', '0019_one_text_of_the_functions'),
        ('matching', '0020_claims_read_any_amount_of_the_slot'),
        ('matching', '0021_descriptions_and_outputs_beside_jobs'),
        ('matching', '0022_ordered_ids_of_leases'),
        ('matching', '0023_jobs_on_hosts'),
        ('matching', '0024_ordinary_reports'),
        ('matching', '0025_claims_write_pilots_rarely'),
        ('matching', '0026_heartbeats_compress_output'),
        ('matching', '0027_tails_and_samples_of_attempts'),
        ('matching', '0028_fewer_and_smaller_samples'),
    ]
    initial = True
    dependencies = [
        ('jobs', '0001_squashed_0_1_0'),
        ('pilots', '0001_squashed_0_1_0'),
        ('resources', '0001_squashed_0_1_0'),
    ]
    operations = [
        migrations.CreateModel(
            name='PilotEfficiency',
            fields=[
            ],
            options={
                'verbose_name': 'pilot efficiency',
                'verbose_name_plural': 'pilot efficiency',
                'proxy': True,
                'indexes': [],
                'constraints': [],
            },
            bases=('pilots.pilot',),
        ),
        migrations.CreateModel(
            name='ExpirerRun',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('ran_at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='expirer_has_one_row')],
            },
        ),
        migrations.CreateModel(
            name='Match',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('request_id', models.UUIDField(help_text='A repeated request of the same pilot gets the same leases.')),
                ('ordinal', models.SmallIntegerField(default=0, help_text='Number of the lease within its request, from 0.')),
                ('leased_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField(help_text='The server ends it some time later (WMS_LEASE_GRACE_S).')),
                ('reported_at', models.DateTimeField(help_text='Last report; none: not started yet.', null=True)),
                ('reported_status', models.CharField(default=wms.jobs.domain.lifecycle.JobStatus['MATCHED'], help_text='Last reported status, to which a Stalled job returns.', max_length=16)),
                ('ended_at', models.DateTimeField(null=True)),
                ('end_reason', models.CharField(blank=True, help_text='finished, killed, expired or pilot_ended.', max_length=32)),
                ('job', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.PROTECT, related_name='matches', to='jobs.job')),
                ('pilot', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='matches', to='pilots.pilot')),
                ('queue', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='resources.queue')),
                ('cpu_segment_s', models.IntegerField(default=0, help_text='CPU segment of the task queue it came from.')),
                ('job_at_fault', models.BooleanField(db_default=False, default=False, help_text='Whether it ended because the node lacks what the job itself requires.')),
                ('died', models.BooleanField(db_default=False, default=False, help_text="Whether it ended because the pilot, or the pilot's process for the job, died while the payload ran.")),
            ],
            options={
                'verbose_name_plural': 'matches',
                'indexes': [models.Index(condition=models.Q(('ended_at__isnull', True)), fields=['pilot'], name='match_open'), models.Index(condition=models.Q(('ended_at__isnull', False)), fields=['ended_at'], name='match_ended')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('ended_at__isnull', True)), fields=('job',), name='job_has_at_most_one_open_match'), models.UniqueConstraint(fields=('pilot', 'request_id', 'ordinal'), name='a_request_of_a_pilot_gets_its_leases_once')],
            },
        ),
    ]
