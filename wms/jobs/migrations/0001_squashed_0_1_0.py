"""All migrations up to version 0.1.0 in one: made by makemigrations, but for statements in SQL (CONTRIBUTING.md)."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.fields.json
import django.utils.timezone
import uuid
import wms.jobs.domain.lifecycle
import wms.kernel.fields
from pathlib import Path
from django.conf import settings
from django.db import migrations, models

from wms.kernel.squashed import CreateModels

_POSSIBLE = Path(__file__).parents[1] / 'sql' / 'possible.sql'


class Migration(migrations.Migration):
    replaces = [
        ('jobs', '0001_initial'),
        ('jobs', '0002_indexes_that_serve_a_screen'),
        ('jobs', '0003_constraints_that_cost_little'),
        ('jobs', '0004_where_jobs_are_held'),
        ('jobs', '0005_input_data'),
        ('jobs', '0006_jobs_that_waited_before'),
        ('jobs', '0007_job_that_waits_for_room'),
        ('jobs', '0008_orders_of_three_names'),
        ('jobs', '0009_software_of_jobs_that_wait'),
        ('jobs', '0010_jobs_carry_what_holds_them_back'),
        ('jobs', '0011_composed_names'),
        ('jobs', '0012_use_of_sandboxes'),
        ('jobs', '0013_job_of_output_sandbox'),
        ('jobs', '0014_index_of_outputs'),
        ('jobs', '0015_plain_help_texts'),
        ('jobs', '0016_counted_jobs'),
        ('jobs', '0017_kinds_of_jobs'),
        ('jobs', '0018_narrow_jobs'),
        ('jobs', '0019_fewer_indexes'),
        ('jobs', '0020_contents_of_submissions'),
        ('jobs', '0021_jobs_on_hosts'),
        ('jobs', '0022_names_beside_descriptions'),
        ('jobs', '0023_cheaper_changes'),
        ('jobs', '0024_indexes_that_no_query_uses'),
        ('jobs', '0025_compressed_outputs'),
        ('jobs', '0026_stream_of_changes'),
        ('jobs', '0027_tails_of_attempts'),
        ('jobs', '0028_usage_samples'),
        ('jobs', '0029_accounting'),
        ('jobs', '0030_notices_of_submissions'),
        ('jobs', '0031_saved_descriptions'),
        ('jobs', '0032_submissions_in_their_order'),
        ('jobs', '0033_fewer_and_smaller_samples'),
        ('jobs', '0034_sums_of_buckets'),
        ('jobs', '0035_values_of_mixed_submissions'),
    ]
    initial = True
    dependencies = [
        ('accounts', '0001_squashed_0_1_0'),
        ('resources', '0001_squashed_0_1_0'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        # A constraint calls it.
        migrations.RunSQL(_POSSIBLE.read_text(encoding='utf-8'), migrations.RunSQL.noop),
        CreateModels([
            migrations.CreateModel(
                name='CurrentContentJobCount',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('status', models.CharField(max_length=16)),
                    ('jobs', models.BigIntegerField()),
                    ('exit_code', models.IntegerField(null=True)),
                    ('submitted_at', models.DateTimeField(null=True)),
                    ('job_type', models.CharField(max_length=255, null=True)),
                    ('job_group', models.CharField(max_length=255, null=True)),
                    ('name_prefix', models.CharField(max_length=255)),
                    ('name_rest', models.CharField(max_length=8)),
                ],
                options={
                    'db_table': 'jobs_currentcontentjobcount',
                    'managed': False,
                },
            ),
            migrations.CreateModel(
                name='CurrentJobCount',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('status', models.CharField(max_length=16)),
                    ('jobs', models.BigIntegerField()),
                    ('job_type', models.CharField(max_length=255)),
                    ('exit_code', models.IntegerField(null=True)),
                ],
                options={
                    'db_table': 'jobs_currentjobcount',
                    'managed': False,
                },
            ),
            migrations.CreateModel(
                name='CurrentSiteJobCount',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('status', models.CharField(max_length=16)),
                    ('jobs', models.BigIntegerField()),
                ],
                options={
                    'db_table': 'jobs_currentsitejobcount',
                    'managed': False,
                },
            ),
            migrations.CreateModel(
                name='CurrentSubmissionJobCount',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('status', models.CharField(max_length=16)),
                    ('jobs', models.BigIntegerField()),
                    ('exit_code', models.IntegerField(null=True)),
                ],
                options={
                    'db_table': 'jobs_currentsubmissionjobcount',
                    'managed': False,
                },
            ),
            migrations.CreateModel(
                name='JobOnHost',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('host_name', models.CharField(max_length=255)),
                ],
                options={
                    'db_table': 'jobs_jobonhost',
                    'managed': False,
                },
            ),
            migrations.CreateModel(
                name='JobBucketPeriod',
                fields=[
                    ('pk', models.CompositePrimaryKey('width_s', 'begun_at', blank=True, editable=False, primary_key=True, serialize=False)),
                    ('width_s', models.IntegerField()),
                    ('begun_at', models.DateTimeField()),
                    ('samples', models.IntegerField()),
                ],
            ),
            migrations.CreateModel(
                name='JobCountChange',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('submission_id', models.UUIDField()),
                    ('owner_id', models.BigIntegerField()),
                    ('group_id', models.BigIntegerField()),
                    ('vo_id', models.BigIntegerField()),
                    ('job_type', models.CharField(max_length=255)),
                    ('status_before', models.CharField(help_text='Null: the jobs are new.', max_length=16, null=True)),
                    ('site_before_id', models.BigIntegerField(null=True)),
                    ('status_after', models.CharField(help_text='Null: the jobs are deleted.', max_length=16, null=True)),
                    ('site_after_id', models.BigIntegerField(null=True)),
                    ('jobs', models.BigIntegerField()),
                    ('exit_code_after', models.IntegerField(null=True)),
                    ('exit_code_before', models.IntegerField(null=True)),
                ],
            ),
            migrations.CreateModel(
                name='Sandbox',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('digest', models.CharField(help_text='SHA-256 of the content, in hexadecimal.', max_length=64, unique=True)),
                    ('size_bytes', models.PositiveBigIntegerField()),
                    ('is_archive', models.BooleanField(help_text="Whether it is unpacked in the job's directory; a single file is stored there as it is.")),
                    ('created_at', models.DateTimeField()),
                    ('check_use_at', models.DateTimeField(db_index=True, default=django.utils.timezone.now, help_text='Next check whether it is used.')),
                ],
            ),
            migrations.CreateModel(
                name='Submission',
                fields=[
                    ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                    ('submitted_at', models.DateTimeField()),
                    ('request_id', models.UUIDField(help_text='Idempotency key: a repeated request of its owner returns the first response.', null=True)),
                    ('body_digest', models.BinaryField(help_text='SHA-256 of the request; a different body is a conflict.', max_length=32)),
                    ('answer', models.JSONField(help_text='Response, repeated for the same request_id.', null=True)),
                    ('group', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='submissions', to='accounts.group')),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='submissions', to=settings.AUTH_USER_MODEL)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(condition=models.Q(('request_id__isnull', False)), fields=('owner', 'request_id'), name='request_id_is_used_once_by_its_owner')],
                },
            ),
            migrations.CreateModel(
                name='Accounting',
                fields=[
                    ('id', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                    ('seen', models.TextField(help_text='Position in the stream of changes: a snapshot (ADR 62).')),
                    ('began_at', models.DateTimeField(help_text='What happened earlier is in no bucket.')),
                    ('sampled_at', models.DateTimeField(help_text='Last sample of levels.', null=True)),
                    ('runs', models.BigIntegerField(default=0)),
                ],
                options={
                    'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='accounting_has_one_row')],
                },
            ),
            migrations.CreateModel(
                name='StoredDescription',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('description', models.JSONField(help_text="All fields but the job's name, in the form of the REST interface.")),
                    ('digest', models.GeneratedField(db_persist=True, expression=models.Func(models.Func(models.F('description'), function='jsonb_send'), function='sha256'), help_text='SHA-256 of the description.', output_field=models.BinaryField(max_length=32), unique=True)),
                ],
                options={
                    'indexes': [django.contrib.postgres.indexes.GinIndex(django.db.models.fields.json.KeyTransform('input_data', 'description'), condition=models.Q(('description__input_data__0__isnull', False)), name='description_of_input_file')],
                },
            ),
            migrations.CreateModel(
                name='Job',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('status', models.CharField(choices=[(wms.jobs.domain.lifecycle.JobStatus['RECEIVED'], wms.jobs.domain.lifecycle.JobStatus['RECEIVED']), (wms.jobs.domain.lifecycle.JobStatus['CHECKING'], wms.jobs.domain.lifecycle.JobStatus['CHECKING']), (wms.jobs.domain.lifecycle.JobStatus['WAITING'], wms.jobs.domain.lifecycle.JobStatus['WAITING']), (wms.jobs.domain.lifecycle.JobStatus['HELD'], wms.jobs.domain.lifecycle.JobStatus['HELD']), (wms.jobs.domain.lifecycle.JobStatus['MATCHED'], wms.jobs.domain.lifecycle.JobStatus['MATCHED']), (wms.jobs.domain.lifecycle.JobStatus['RUNNING'], wms.jobs.domain.lifecycle.JobStatus['RUNNING']), (wms.jobs.domain.lifecycle.JobStatus['STALLED'], wms.jobs.domain.lifecycle.JobStatus['STALLED']), (wms.jobs.domain.lifecycle.JobStatus['COMPLETING'], wms.jobs.domain.lifecycle.JobStatus['COMPLETING']), (wms.jobs.domain.lifecycle.JobStatus['RESCHEDULED'], wms.jobs.domain.lifecycle.JobStatus['RESCHEDULED']), (wms.jobs.domain.lifecycle.JobStatus['FAILED'], wms.jobs.domain.lifecycle.JobStatus['FAILED']), (wms.jobs.domain.lifecycle.JobStatus['DONE'], wms.jobs.domain.lifecycle.JobStatus['DONE']), (wms.jobs.domain.lifecycle.JobStatus['KILLED'], wms.jobs.domain.lifecycle.JobStatus['KILLED']), (wms.jobs.domain.lifecycle.JobStatus['DELETED'], wms.jobs.domain.lifecycle.JobStatus['DELETED'])], max_length=16)),
                    ('minor_status', models.CharField(blank=True, max_length=255)),
                    ('application_status', models.CharField(blank=True, max_length=255)),
                    ('job_name', models.CharField(blank=True, max_length=255)),
                    ('job_group', models.CharField(blank=True, help_text='Free label of the user.', max_length=255)),
                    ('job_type', models.CharField(max_length=255)),
                    ('priority', models.SmallIntegerField(help_text='User priority, 0 to 10.')),
                    ('submit_pools', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), default=list, help_text='Submit pools that it names, or that of its requirements.', size=None)),
                    ('reschedules', models.SmallIntegerField(default=0, help_text='Number of times it went back to its queue.')),
                    ('pilot_id', models.BigIntegerField(help_text='Pilot of the last match.', null=True)),
                    ('submitted_at', models.DateTimeField()),
                    ('status_changed_at', models.DateTimeField()),
                    ('matched_at', models.DateTimeField(null=True)),
                    ('started_at', models.DateTimeField(null=True)),
                    ('ended_at', models.DateTimeField(null=True)),
                    ('heartbeat_at', models.DateTimeField(null=True)),
                    ('exit_code', models.IntegerField(null=True)),
                    ('cpu_s', models.FloatField(help_text='CPU time of all processes of the payload.', null=True)),
                    ('wall_s', models.FloatField(null=True)),
                    ('max_memory_mb', models.FloatField(help_text='Highest memory that was reported.', null=True)),
                    ('max_disk_mb', models.FloatField(null=True)),
                    ('group', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='accounts.group')),
                    ('owner', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to=settings.AUTH_USER_MODEL)),
                    ('queue', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='resources.queue')),
                    ('site', models.ForeignKey(db_constraint=False, db_index=False, help_text='Of the last match.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='jobs', to='resources.site')),
                    ('vo', models.ForeignKey(db_constraint=False, db_index=False, help_text='VO of the group.', on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='accounts.vo')),
                    ('output_sandbox', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='jobs.sandbox')),
                    ('submission', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='jobs.submission')),
                    ('ce', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='resources.computingelement')),
                    ('input_sites', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=128), help_text='Sites with all of its input data, as of its enqueueing; null: it has no input data.', null=True, size=None)),
                    ('held_back', models.JSONField(editable=False, help_text='While it is Held or Checking: when and where it may be matched after that.', null=True)),
                    ('stored_description', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='jobs.storeddescription')),
                ],
                options={
                    'indexes': [models.Index(fields=['owner', 'group', 'status', 'id'], name='job_of_its_kind'), models.Index(condition=models.Q(('site__isnull', False)), fields=['site', 'owner', 'group', 'status', 'id'], include=('submission', 'exit_code'), name='job_of_its_kind_at_site'), django.contrib.postgres.indexes.BTreeIndex(fields=['submission', 'job_name'], fillfactor=50, name='job_of_submission', opclasses=['uuid_ops', 'varchar_pattern_ops']), models.Index(condition=models.Q(('status__one_of', [wms.jobs.domain.lifecycle.JobStatus['CHECKING'], wms.jobs.domain.lifecycle.JobStatus['COMPLETING'], wms.jobs.domain.lifecycle.JobStatus['HELD'], wms.jobs.domain.lifecycle.JobStatus['MATCHED'], wms.jobs.domain.lifecycle.JobStatus['RECEIVED'], wms.jobs.domain.lifecycle.JobStatus['RESCHEDULED'], wms.jobs.domain.lifecycle.JobStatus['RUNNING'], wms.jobs.domain.lifecycle.JobStatus['STALLED']]), models.Q(('submit_pools', []), _negated=True)), fields=['id'], name='job_that_names_pools'), models.Index(condition=models.Q(('input_sites__isnull', False), ('status__in', [wms.jobs.domain.lifecycle.JobStatus['CHECKING'], wms.jobs.domain.lifecycle.JobStatus['WAITING']])), fields=['stored_description'], name='job_of_stored_description'), models.Index(condition=models.Q(('input_sites__isnull', False), ('status__in', [wms.jobs.domain.lifecycle.JobStatus['CHECKING'], wms.jobs.domain.lifecycle.JobStatus['WAITING']])), fields=['id'], name='job_with_input_data'), models.Index(condition=models.Q(('output_sandbox__isnull', False)), fields=['output_sandbox'], name='job_of_output_sandbox'), models.Index(condition=models.Q(('minor_status', 'Waits for room in a quota of waiting jobs'), ('status', wms.jobs.domain.lifecycle.JobStatus['CHECKING'])), fields=['group', 'owner', 'job_type', 'id'], name='job_that_waits_for_room')],
                    'constraints': [models.CheckConstraint(condition=models.Func(models.F('status'), models.F('ended_at'), models.F('priority'), models.F('reschedules'), function='wms_job_is_possible', output_field=models.BooleanField()), name='job_has_known_status_and_priority_and_ended_at_iff_final')],
                },
            ),
            migrations.CreateModel(
                name='JobBucketSum',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('width_s', models.IntegerField(help_text='Length of the bucket, as in ``domain.accounting.Width``.')),
                    ('begun_at', models.DateTimeField()),
                    ('started', models.IntegerField(db_default=0, help_text='Starts of payloads; one that stalls and goes on is one.')),
                    ('done', models.IntegerField(db_default=0)),
                    ('failed', models.IntegerField(db_default=0)),
                    ('killed', models.IntegerField(db_default=0)),
                    ('cpu_s', models.FloatField(db_default=0.0, help_text='CPU time of the jobs that ended.')),
                    ('wall_s', models.FloatField(db_default=0.0, help_text='Wall-clock time times processors of the jobs that ended.')),
                    ('running', models.FloatField(db_default=0.0, help_text='Jobs that a pilot had.')),
                    ('waiting', models.FloatField(db_default=0.0, help_text='Other jobs in a task queue, or about to be.')),
                    ('waiting_unmatched', models.FloatField(db_default=0.0, help_text='Jobs in a task queue that no batch queue fits.')),
                    ('waiting_for_data', models.FloatField(db_default=0.0, help_text='Jobs of which no site held all input data.')),
                    ('waiting_for_room', models.FloatField(db_default=0.0, help_text='Jobs whose quota of waiting jobs was full.')),
                    ('held', models.FloatField(db_default=0.0)),
                    ('grouping', models.CharField(help_text='The property, as in ``domain.accounting.Grouping``.', max_length=8)),
                    ('key', models.BigIntegerField(help_text='The site, user or group; 0: none, or the property is the type.')),
                    ('job_type', models.CharField(help_text='Empty: none, or the property is another.', max_length=255)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('width_s', 'grouping', 'begun_at', 'key', 'job_type'), name='job_bucket_sum_is_one_row')],
                },
            ),
            migrations.CreateModel(
                name='OutputTail',
                fields=[
                    ('pk', models.CompositePrimaryKey('job_id', 'attempt', blank=True, editable=False, primary_key=True, serialize=False)),
                    ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='output_tails', to='jobs.job')),
                    ('std_output', wms.kernel.fields.CompressedTextField(help_text='Last lines of standard output; null: none were sent.', null=True)),
                    ('attempt', models.SmallIntegerField(help_text='Number of times that the job had been rescheduled; the first is 0.')),
                    ('std_error', wms.kernel.fields.CompressedTextField(help_text='Last lines of standard error; null: none were sent.', null=True)),
                ],
            ),
            migrations.CreateModel(
                name='SiteLayout',
                fields=[
                    ('id', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                    ('digest', models.BinaryField(help_text='SHA-256 of the content.', max_length=32)),
                ],
                options={
                    'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='site_layout_has_one_row')],
                },
            ),
            migrations.CreateModel(
                name='SubmissionJobCount',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('owner', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ('group', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.group')),
                    ('vo', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.vo')),
                    ('status', models.CharField(max_length=16)),
                    ('jobs', models.BigIntegerField()),
                    ('submission', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.submission')),
                    ('exit_code', models.IntegerField(null=True)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('submission', 'owner', 'group', 'status', 'exit_code'), name='submission_job_count_is_one_row', nulls_distinct=False)],
                },
            ),
            migrations.CreateModel(
                name='UsageSamples',
                fields=[
                    ('pk', models.CompositePrimaryKey('job_id', 'attempt', blank=True, editable=False, primary_key=True, serialize=False)),
                    ('attempt', models.SmallIntegerField(help_text='Number of times that the job had been rescheduled; the first is 0.')),
                    ('step_s', models.IntegerField(help_text='Seconds since the start are divided into steps; each has one sample at most.')),
                    ('samples', django.contrib.postgres.fields.ArrayField(base_field=models.SmallIntegerField(), help_text='Four numbers of each sample, as in ``domain.samples``, and room for later ones.', size=None)),
                    ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='usage_samples', to='jobs.job')),
                ],
            ),
            migrations.CreateModel(
                name='JobBucket',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('width_s', models.IntegerField(help_text='Length of the bucket, as in ``domain.accounting.Width``.')),
                    ('begun_at', models.DateTimeField()),
                    ('job_type', models.CharField(max_length=255)),
                    ('started', models.IntegerField(db_default=0, help_text='Starts of payloads; one that stalls and goes on is one.')),
                    ('done', models.IntegerField(db_default=0)),
                    ('failed', models.IntegerField(db_default=0)),
                    ('killed', models.IntegerField(db_default=0)),
                    ('cpu_s', models.FloatField(db_default=0.0, help_text='CPU time of the jobs that ended.')),
                    ('wall_s', models.FloatField(db_default=0.0, help_text='Wall-clock time times processors of the jobs that ended.')),
                    ('running', models.FloatField(db_default=0.0, help_text='Jobs that a pilot had.')),
                    ('waiting', models.FloatField(db_default=0.0, help_text='Other jobs in a task queue, or about to be.')),
                    ('waiting_for_data', models.FloatField(db_default=0.0, help_text='Jobs of which no site held all input data.')),
                    ('waiting_for_room', models.FloatField(db_default=0.0, help_text='Jobs whose quota of waiting jobs was full.')),
                    ('held', models.FloatField(db_default=0.0)),
                    ('group', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.group')),
                    ('owner', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ('site', models.ForeignKey(db_constraint=False, db_index=False, help_text='Null: the jobs had no site, as while they wait.', null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='resources.site')),
                    ('vo', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.vo')),
                    ('waiting_unmatched', models.FloatField(db_default=0.0, help_text='Jobs in a task queue that no batch queue fits.')),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('width_s', 'begun_at', 'owner', 'group', 'site', 'job_type'), name='job_bucket_is_one_row', nulls_distinct=False)],
                },
            ),
            migrations.CreateModel(
                name='JobCommand',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.CharField(help_text='kill, peek or drain.', max_length=16)),
                    ('arguments', models.JSONField(default=dict)),
                    ('created_at', models.DateTimeField()),
                    ('acknowledged_at', models.DateTimeField(null=True)),
                    ('job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='commands', to='jobs.job')),
                ],
                options={
                    'indexes': [models.Index(condition=models.Q(('acknowledged_at__isnull', True)), fields=['job'], name='command_to_be_obeyed')],
                },
            ),
            migrations.CreateModel(
                name='JobCount',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('owner', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ('group', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.group')),
                    ('vo', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.vo')),
                    ('status', models.CharField(max_length=16)),
                    ('jobs', models.BigIntegerField()),
                    ('job_type', models.CharField(max_length=255)),
                    ('exit_code', models.IntegerField(null=True)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('owner', 'group', 'job_type', 'status', 'exit_code'), name='job_count_is_one_row', nulls_distinct=False)],
                },
            ),
            migrations.CreateModel(
                name='JobHistory',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('changed_at', models.DateTimeField()),
                    ('status', models.CharField(choices=[(wms.jobs.domain.lifecycle.JobStatus['RECEIVED'], wms.jobs.domain.lifecycle.JobStatus['RECEIVED']), (wms.jobs.domain.lifecycle.JobStatus['CHECKING'], wms.jobs.domain.lifecycle.JobStatus['CHECKING']), (wms.jobs.domain.lifecycle.JobStatus['WAITING'], wms.jobs.domain.lifecycle.JobStatus['WAITING']), (wms.jobs.domain.lifecycle.JobStatus['HELD'], wms.jobs.domain.lifecycle.JobStatus['HELD']), (wms.jobs.domain.lifecycle.JobStatus['MATCHED'], wms.jobs.domain.lifecycle.JobStatus['MATCHED']), (wms.jobs.domain.lifecycle.JobStatus['RUNNING'], wms.jobs.domain.lifecycle.JobStatus['RUNNING']), (wms.jobs.domain.lifecycle.JobStatus['STALLED'], wms.jobs.domain.lifecycle.JobStatus['STALLED']), (wms.jobs.domain.lifecycle.JobStatus['COMPLETING'], wms.jobs.domain.lifecycle.JobStatus['COMPLETING']), (wms.jobs.domain.lifecycle.JobStatus['RESCHEDULED'], wms.jobs.domain.lifecycle.JobStatus['RESCHEDULED']), (wms.jobs.domain.lifecycle.JobStatus['FAILED'], wms.jobs.domain.lifecycle.JobStatus['FAILED']), (wms.jobs.domain.lifecycle.JobStatus['DONE'], wms.jobs.domain.lifecycle.JobStatus['DONE']), (wms.jobs.domain.lifecycle.JobStatus['KILLED'], wms.jobs.domain.lifecycle.JobStatus['KILLED']), (wms.jobs.domain.lifecycle.JobStatus['DELETED'], wms.jobs.domain.lifecycle.JobStatus['DELETED'])], max_length=16)),
                    ('minor_status', models.CharField(blank=True, max_length=255)),
                    ('application_status', models.CharField(blank=True, max_length=255)),
                    ('source', models.CharField(help_text='Author of the change: a user, a pilot, an agent.', max_length=150)),
                    ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='history', to='jobs.job')),
                    ('transaction_number', models.BigIntegerField(db_default=wms.kernel.fields.CurrentTransaction(), editable=False, help_text='Of the transaction that wrote the line; null: written before there was a stream of changes.', null=True)),
                ],
                options={
                    'verbose_name_plural': 'job history',
                    'indexes': [django.contrib.postgres.indexes.BrinIndex(autosummarize=True, fields=['transaction_number', 'id'], name='job_history_in_order', pages_per_range=16)],
                },
            ),
            migrations.CreateModel(
                name='InputSandbox',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('file_name', models.CharField(max_length=255)),
                    ('job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='input_sandboxes', to='jobs.job')),
                    ('sandbox', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='input_of', to='jobs.sandbox')),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('job', 'sandbox'), name='a_job_names_a_sandbox_once')],
                },
            ),
            migrations.CreateModel(
                name='SandboxUpload',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('file_name', models.CharField(max_length=255)),
                    ('uploaded_at', models.DateTimeField()),
                    ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='sandbox_uploads', to=settings.AUTH_USER_MODEL)),
                    ('sandbox', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='uploads', to='jobs.sandbox')),
                    ('is_output', models.BooleanField(default=False, help_text="Of a job, stored by its pilot; not in the user's quota.")),
                ],
                options={
                    'indexes': [models.Index(condition=models.Q(('is_output', True)), fields=['file_name'], name='output_of_job')],
                    'constraints': [models.UniqueConstraint(fields=('sandbox', 'owner', 'file_name'), name='a_user_uploads_a_content_under_a_name_once')],
                },
            ),
            migrations.CreateModel(
                name='SavedDescription',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.CharField(max_length=64)),
                    ('syntax', models.CharField(choices=[('form', 'Form'), ('jdl', 'JDL'), ('cfg', 'CFG'), ('json', 'JSON')], max_length=4)),
                    ('text', models.TextField()),
                    ('files', models.JSONField(default=list, help_text='[reference, name] of each sandbox that goes along.')),
                    ('saved_at', models.DateTimeField()),
                    ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='saved_descriptions', to=settings.AUTH_USER_MODEL)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('owner', 'name'), name='saved_description_has_a_name_of_its_own'), models.CheckConstraint(condition=models.Q(('syntax__in', ['form', 'jdl', 'cfg', 'json'])), name='saved_description_has_known_syntax')],
                },
            ),
            migrations.CreateModel(
                name='SiteJobCount',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('owner', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ('group', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.group')),
                    ('vo', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.vo')),
                    ('status', models.CharField(max_length=16)),
                    ('jobs', models.BigIntegerField()),
                    ('site', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='resources.site')),
                ],
                options={
                    'indexes': [models.Index(fields=['site', 'status'], name='job_count_of_site')],
                    'constraints': [models.UniqueConstraint(fields=('owner', 'group', 'site', 'status'), name='site_job_count_is_one_row', nulls_distinct=False)],
                },
            ),
            migrations.CreateModel(
                name='SubmissionContent',
                fields=[
                    ('submission', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='content', serialize=False, to='jobs.submission')),
                    ('owner', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ('group', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.group')),
                    ('vo', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.vo')),
                    ('submitted_at', models.DateTimeField(null=True)),
                    ('job_type', models.CharField(max_length=255, null=True)),
                    ('job_group', models.CharField(max_length=255, null=True)),
                    ('name_prefix', models.CharField(help_text='Beginning of the names of all jobs.', max_length=255)),
                    ('name_rest', models.CharField(choices=[('nothing', 'Nothing'), ('digits', 'Digits'), ('anything', 'Anything')], help_text='What follows on it.', max_length=8)),
                    ('first_job_id', models.BigIntegerField()),
                    ('last_job_id', models.BigIntegerField()),
                    ('labels', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), help_text='Labels of jobs that differ in them; empty: there are more than 16.', null=True, size=None)),
                    ('name_stems', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), help_text='Names, without digits at their ends, of jobs that differ in them; empty: there are more than 16.', null=True, size=None)),
                ],
                options={
                    'indexes': [models.Index(fields=['owner', 'first_job_id'], name='content_of_owner'), models.Index(fields=['group'], name='content_of_group'), models.Index(fields=['job_group'], name='content_with_label'), models.Index(fields=['name_prefix'], name='content_with_name', opclasses=['varchar_pattern_ops']), models.Index(fields=['submitted_at'], name='content_since'), django.contrib.postgres.indexes.GinIndex(condition=models.Q(('labels__isnull', False)), fastupdate=False, fields=['labels'], name='content_with_labels'), django.contrib.postgres.indexes.GinIndex(condition=models.Q(('name_stems__isnull', False)), fastupdate=False, fields=['name_stems'], name='content_with_name_stems')],
                },
            ),
            migrations.CreateModel(
                name='SubmissionNotice',
                fields=[
                    ('submission', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='notice', serialize=False, to='jobs.submission')),
                    ('due_at', models.DateTimeField(help_text='Time of the next look whether all jobs have ended.')),
                    ('attempts', models.PositiveSmallIntegerField(default=0, help_text='Number of times that its mail was refused.')),
                    ('owner', models.ForeignKey(db_index=False, help_text='Of the submission.', on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ],
                options={
                    'indexes': [models.Index(fields=['owner'], name='notice_of_owner')],
                },
            ),
        ]),
        # Room in each page for the next version of a row: a heartbeat, which touches no indexed column, then writes
        # no index at all, and a change of status no second page of the table.
        migrations.RunSQL('ALTER TABLE jobs_job SET (fillfactor = 80)', migrations.RunSQL.noop),
        # Room for an entry for each status that a job of a new submission will have.
        migrations.RunSQL('ALTER TABLE jobs_submissionjobcount SET (fillfactor = 50)', migrations.RunSQL.noop),
        # A sample is logged in a few bytes if its row stays in its page, which needs room for one more row of a kilobyte.
        migrations.RunSQL('ALTER TABLE jobs_usagesamples SET (fillfactor = 85)', migrations.RunSQL.noop),
        # The models keep their ids, which the ORM takes for primary keys.
        migrations.RunSQL(
            [
                'ALTER TABLE jobs_jobhistory DROP CONSTRAINT jobs_jobhistory_pkey, ADD PRIMARY KEY (job_id, id)',
                'ALTER TABLE jobs_jobcountchange DROP CONSTRAINT jobs_jobcountchange_pkey',
            ],
            migrations.RunSQL.noop,
        ),
    ]
