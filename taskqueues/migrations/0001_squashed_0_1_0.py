"""All migrations up to version 0.1.0 in one: made by makemigrations, but for statements in SQL (CONTRIBUTING.md)."""

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.datetime
import taskqueues.models.changes
import taskqueues.models.task_queues
import wms.kernel.db
from django.conf import settings
from django.db import migrations, models

from wms.kernel.squashed import CreateModels


class Migration(migrations.Migration):
    replaces = [
        ('taskqueues', '0001_initial'),
        ('taskqueues', '0002_index'),
        ('taskqueues', '0003_waiting_jobs'),
        ('taskqueues', '0004_deliveries'),
        ('taskqueues', '0005_limits'),
        ('taskqueues', '0006_wall_time_gpus_disk_container'),
        ('taskqueues', '0007_stale_submit_pools'),
        ('taskqueues', '0008_limits_that_end'),
        ('taskqueues', '0009_memberships_without_foreign_keys'),
        ('taskqueues', '0010_owners_who_are_members'),
        ('taskqueues', '0011_jobs_that_are_held_back'),
        ('taskqueues', '0012_index_of_jobs_held_back'),
        ('taskqueues', '0013_composed_names'),
        ('taskqueues', '0014_software_of_task_queues'),
        ('taskqueues', '0015_indexes_of_avoided_places'),
        ('taskqueues', '0016_names_of_models'),
        ('taskqueues', '0017_plain_help_texts'),
        ('taskqueues', '0018_counts_of_waiting_jobs'),
        ('taskqueues', '0019_indexes_that_no_query_uses'),
    ]
    initial = True
    dependencies = [
        ('kernel', '0001_squashed_0_1_0'),
        ('accounts', '0001_squashed_0_1_0'),
        ('resources', '0001_squashed_0_1_0'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        CreateModels([
            migrations.CreateModel(
                name='WaitingJobCount',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('job_type', models.CharField(max_length=255)),
                    ('jobs', models.BigIntegerField()),
                ],
                options={
                    'db_table': 'taskqueues_waitingjobcount',
                    'managed': False,
                },
            ),
            migrations.CreateModel(
                name='GroupUsage',
                fields=[
                    ('group', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='accounts.group')),
                    ('used_s', models.FloatField(help_text='Processor-seconds, decayed; all rows until the same moment.')),
                ],
            ),
            migrations.CreateModel(
                name='Limit',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('job_type', models.CharField(blank=True, max_length=255)),
                    ('running', models.PositiveIntegerField(blank=True, help_text='Jobs held by pilots at a time.', null=True)),
                    ('waiting', models.PositiveIntegerField(blank=True, help_text='Jobs in queues at a time.', null=True)),
                    ('cpu_s_per_day', models.PositiveBigIntegerField(blank=True, help_text='CPU time, in seconds, that jobs have reported in the last 24 hours.', null=True)),
                    ('delay_s', models.FloatField(blank=True, help_text='Mean seconds between two matches.', null=True, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(86400.0)])),
                    ('burst', models.PositiveIntegerField(blank=True, help_text='Matches at once after a pause.', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(100000)])),
                    ('ce', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='resources.computingelement')),
                    ('group', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.group')),
                    ('site', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='resources.site')),
                    ('user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ('vo', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.vo')),
                ],
                options={
                    'constraints': [models.CheckConstraint(condition=models.Q(('running__isnull', False), ('waiting__isnull', False), ('cpu_s_per_day__isnull', False), ('delay_s__isnull', False), _connector='OR'), name='limit_limits_something'), models.CheckConstraint(condition=models.Q(('waiting__isnull', True), models.Q(('ce__isnull', True), ('site__isnull', True)), _connector='OR'), name='limit_on_waiting_names_no_place'), models.CheckConstraint(condition=models.Q(('delay_s__gte', 0), ('delay_s__lte', 86400.0)), name='limit_delay_is_at_most_a_day'), models.CheckConstraint(condition=models.Q(('burst__gte', 1), ('burst__lte', 100000)), name='limit_burst_is_at_least_one_and_not_endless')],
                },
            ),
            migrations.CreateModel(
                name='ChangedGroup',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('changed_at', models.DateTimeField()),
                    ('group', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.group')),
                ],
            ),
            migrations.CreateModel(
                name='LimitCount',
                fields=[
                    ('limit', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='count', serialize=False, to='taskqueues.limit')),
                    ('free_at', models.DateTimeField(help_text='Time at which matches that keep the delay would have caught up.', null=True)),
                    ('cpu_s', models.FloatField(default=0.0, help_text='Reported in the last 24 hours, as of the last sum.')),
                ],
            ),
            migrations.CreateModel(
                name='LimitEvent',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('jobs_left', models.SmallIntegerField(default=0, help_text='Jobs that a pilot no longer holds.')),
                    ('cpu_s', models.FloatField(default=0.0)),
                    ('happened_at', models.DateTimeField(db_default=wms.kernel.db.DatabaseNow())),
                    ('limit', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='taskqueues.limit')),
                ],
                options={
                    'indexes': [models.Index(fields=['limit'], name='event_of_limit')],
                },
            ),
            migrations.CreateModel(
                name='LimitHour',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('began_at', models.DateTimeField()),
                    ('cpu_s', models.FloatField()),
                    ('limit', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='taskqueues.limit')),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('limit', 'began_at'), name='a_limit_has_each_hour_once')],
                },
            ),
            migrations.CreateModel(
                name='LimitSlot',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('number', models.PositiveSmallIntegerField()),
                    ('part', models.IntegerField(help_text='Number of this part of the limit.')),
                    ('used', models.IntegerField(help_text='Below 0 if jobs counted in another part have ended.')),
                    ('limit', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='slots', to='taskqueues.limit')),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('limit', 'number'), name='a_limit_has_each_slot_once')],
                },
            ),
            migrations.CreateModel(
                name='SubmitPool',
                fields=[
                    ('id', models.CharField(help_text='SHA-256 of VO and canonical requirements.', max_length=64, primary_key=True, serialize=False)),
                    ('requirements', models.JSONField(help_text='Canonical form.')),
                    ('refreshed_at', models.DateTimeField()),
                    ('last_used_at', models.DateTimeField(help_text='Time at which a job that needs it was last queued.')),
                    ('vo', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='submit_pools', to='accounts.vo')),
                ],
            ),
            migrations.CreateModel(
                name='PoolQueue',
                fields=[
                    ('pk', models.CompositePrimaryKey('submitpool', 'queue', blank=True, editable=False, primary_key=True, serialize=False)),
                    ('submitpool', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='taskqueues.submitpool')),
                    ('queue', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='resources.queue')),
                ],
                options={
                    'db_table': 'taskqueues_submitpool_queues',
                    'indexes': [models.Index(fields=['queue'], name='pools_of_queue')],
                },
            ),
            migrations.CreateModel(
                name='StaleSubmitPools',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('pool', models.CharField(blank=True, help_text='Id of a new pool; empty: all of the VO.', max_length=64)),
                    ('changed_at', models.DateTimeField()),
                    ('vo', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.vo')),
                ],
                options={
                    'verbose_name_plural': 'stale submit pools',
                },
            ),
            migrations.CreateModel(
                name='TaskQueue',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('signature', models.BinaryField(help_text='SHA-256 of the canonical requirements.', max_length=32, unique=True)),
                    ('setup', models.CharField(max_length=64)),
                    ('cpu_time_s', models.PositiveIntegerField(help_text='CPU segment, in reference-core seconds per core.')),
                    ('submit_pools', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), default=list, size=None)),
                    ('pilot_types', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), default=list, size=None)),
                    ('sites', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), default=list, size=None)),
                    ('banned_sites', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), default=list, size=None)),
                    ('grid_ces', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), default=list, size=None)),
                    ('grid_middlewares', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), default=list, size=None)),
                    ('platforms', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), default=list, size=None)),
                    ('job_type', models.CharField(max_length=255)),
                    ('tags', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), default=list, size=None)),
                    ('processors', models.PositiveIntegerField()),
                    ('memory_mb', models.PositiveIntegerField(help_text='Rounded up; 0: no requirement.')),
                    ('priority', models.FloatField(help_text="Part of the group's share; a task queue with 0 is never drawn (PRI).")),
                    ('created_at', models.DateTimeField()),
                    ('group', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='task_queues', to='accounts.group')),
                    ('owner', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='task_queues', to=settings.AUTH_USER_MODEL)),
                    ('vo', models.ForeignKey(help_text='VO of the group.', on_delete=django.db.models.deletion.PROTECT, related_name='task_queues', to='accounts.vo')),
                    ('jobs_of_level', django.contrib.postgres.fields.ArrayField(base_field=models.PositiveIntegerField(), default=taskqueues.models.task_queues.no_jobs, help_text='Waiting jobs of user priority 0 to 10, when last evaluated.', size=None)),
                    ('weight', models.FloatField(default=0.0, help_text='Sum of the weights of its waiting jobs, when last evaluated.')),
                    ('container', models.BooleanField(default=False, help_text='Whether the jobs run in containers.')),
                    ('disk_mb', models.PositiveIntegerField(default=0, help_text='Rounded up; 0: no requirement.')),
                    ('gpus', models.PositiveIntegerField(default=0, verbose_name='GPUs')),
                    ('wall_time_s', models.PositiveIntegerField(default=0, help_text='Rounded up; 0: no requirement.')),
                    ('software', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=1024), default=list, help_text='Software published by some queue of the VO must be published where the jobs run.', size=None)),
                ],
                options={
                    'constraints': [models.CheckConstraint(condition=models.Q(('priority__gte', 0)), name='task_queue_priority_is_not_negative'), models.CheckConstraint(condition=models.Q(('sites', []), ('banned_sites', []), _connector='OR'), name='task_queue_bans_no_site_beside_a_list_of_sites')],
                },
            ),
            migrations.CreateModel(
                name='QueuedJob',
                fields=[
                    ('job_id', models.BigIntegerField(primary_key=True, serialize=False)),
                    ('user_priority', models.PositiveSmallIntegerField(help_text='0 to 10, as set by the user.')),
                    ('task_queue', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='queued_jobs', to='taskqueues.taskqueue')),
                    ('is_held_back', models.BooleanField(db_default=False, default=False, help_text='Whether the columns below restrict when and where it may be matched.')),
                    ('not_before', models.DateTimeField(help_text="No pilot gets it before; by the database's clock.", null=True)),
                    ('avoided_until', models.DateTimeField(help_text='Time until which the places below do not get it.', null=True)),
                    ('avoided_queue_ids', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), help_text='Queues that gave it back, the latest last.', null=True, size=None)),
                    ('avoided_host', models.CharField(help_text='Only host avoided at these queues; none: the whole queues are avoided.', max_length=255, null=True)),
                ],
                options={
                    'indexes': [models.Index(fields=['task_queue', 'user_priority', 'is_held_back', 'job_id'], name='queued_job_oldest_of_its_kind'), models.Index(models.F('task_queue'), models.F('user_priority'), django.db.models.functions.comparison.Coalesce('avoided_queue_ids', models.Value([], output_field=django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None))), django.db.models.functions.comparison.Coalesce('avoided_host', models.Value('')), models.F('not_before'), models.F('job_id'), condition=models.Q(('is_held_back', True)), name='queued_job_by_avoided_place'), models.Index(models.F('task_queue'), models.F('user_priority'), django.db.models.functions.comparison.Greatest('not_before', 'avoided_until'), models.F('job_id'), condition=models.Q(('is_held_back', True)), name='queued_job_open_to_all')],
                    'constraints': [models.CheckConstraint(condition=models.Q(('user_priority__range', (0, 10))), name='user_priority_is_0_to_10'), models.CheckConstraint(condition=models.Q(models.Q(('is_held_back', True), ('not_before__isnull', False)), models.Q(('avoided_until__isnull', True), ('is_held_back', False), ('not_before__isnull', True)), _connector='OR'), name='a_job_that_is_held_back_says_until_when'), models.CheckConstraint(condition=models.Q(models.Q(('avoided_host__isnull', True), ('avoided_queue_ids__isnull', True), ('avoided_until__isnull', True)), models.Q(('avoided_queue_ids__isnull', False), ('avoided_until__isnull', False)), _connector='OR'), name='a_place_is_avoided_until_some_time')],
                },
            ),
            migrations.CreateModel(
                name='TaskQueueChange',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('xid', taskqueues.models.changes.XidField(db_default=taskqueues.models.changes.CurrentXid(), editable=False)),
                    ('task_queue_id', models.BigIntegerField()),
                    ('user_priority', models.PositiveSmallIntegerField(help_text="Level whose number of jobs changed; none: the task queue's row must be read.", null=True)),
                    ('jobs', models.IntegerField(default=0, help_text='Jobs added; negative: removed.')),
                    ('counted_in', models.TextField(blank=True, db_default='', default='', help_text="Snapshot in which the row's jobs_of_level was counted.")),
                    ('changed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ],
                options={
                    'indexes': [models.Index(fields=['xid'], name='task_queue_change_xid')],
                },
            ),
            migrations.CreateModel(
                name='UsageCounter',
                fields=[
                    ('id', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                    ('counted_until', models.DateTimeField()),
                ],
                options={
                    'db_table': 'taskqueues_deliverycount',
                    'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='delivery_count_has_one_row')],
                },
            ),
            migrations.CreateModel(
                name='UsageInterval',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('cpu_segment_s', models.PositiveIntegerField(help_text='In reference-core seconds per core.')),
                    ('began_at', models.DateTimeField(help_text='Start of the interval.')),
                    ('matches', models.PositiveIntegerField(help_text='Number of jobs that pilots got.')),
                    ('processor_s', models.FloatField(help_text='Time under lease × processors (ADR 13).')),
                    ('group', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.group')),
                ],
                options={
                    'db_table': 'taskqueues_delivery',
                    'constraints': [models.UniqueConstraint(fields=('began_at', 'group', 'cpu_segment_s'), name='a_group_has_one_delivery_of_a_segment_in_an_interval')],
                },
            ),
        ]),
        migrations.AddField(
            model_name='submitpool',
            name='queues',
            field=models.ManyToManyField(blank=True, related_name='submit_pools', through='taskqueues.PoolQueue', to='resources.queue'),
        ),
        # Each match writes a row again: room for the new version on the same page keeps the indexes as they are.
        migrations.RunSQL('ALTER TABLE taskqueues_limitslot SET (fillfactor = 20)', migrations.RunSQL.noop),
        # So with priorities.
        migrations.RunSQL('ALTER TABLE taskqueues_taskqueue SET (fillfactor = 70)', migrations.RunSQL.noop),
        # Rows are added at one end and deleted at the other: dead rows at its head would make claims slow.
        migrations.RunSQL(
            'ALTER TABLE taskqueues_queuedjob SET (autovacuum_vacuum_scale_factor = 0.01)', migrations.RunSQL.noop
        ),
    ]
