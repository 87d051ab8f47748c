"""All migrations up to version 0.1.0 in one: made by makemigrations, but for statements in SQL (CONTRIBUTING.md)."""

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.text
import django.utils.timezone
import re
import resources.domain.enums
import resources.models
import resources.validators
import wms.accounts.stall_rule
from django.conf import settings
from django.db import migrations, models

from wms.kernel.squashed import CreateModels


class Migration(migrations.Migration):
    replaces = [
        ('resources', '0001_initial'),
        ('resources', '0002_throttle_states'),
        ('resources', '0003_wall_time_gpus_disk_container'),
        ('resources', '0004_replicas'),
        ('resources', '0005_site_throttle'),
        ('resources', '0006_queue_saying'),
        ('resources', '0007_ce_types_are_those_of_backends'),
        ('resources', '0008_stall_rule_of_a_queue'),
        ('resources', '0009_grid_middleware_of_a_ce'),
        ('resources', '0010_composed_names'),
        ('resources', '0011_platforms_of_nodes'),
        ('resources', '0012_gateways_of_sites'),
        ('resources', '0013_stall_windows_have_a_least'),
        ('resources', '0014_a_computing_element_names_its_type'),
        ('resources', '0015_storage_elements_serve_vos'),
        ('resources', '0016_deleted_vos_open_nothing'),
        ('resources', '0017_registration_tokens_expire'),
        ('resources', '0018_registration_tokens_in_use_expire'),
        ('resources', '0019_plain_help_texts'),
        ('resources', '0020_indexes_that_no_query_uses'),
    ]
    initial = True
    dependencies = [
        ('accounts', '0001_squashed_0_1_0'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        CreateModels([
            migrations.CreateModel(
                name='Platform',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.CharField(max_length=128, unique=True, validators=[django.core.validators.RegexValidator(re.compile('[A-Za-z0-9_][A-Za-z0-9_.:@+-]*\\Z'), 'Use letters, digits and . _ : @ + - only, and begin with a letter, a digit or _.')])),
                    ('runs', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), blank=True, default=list, help_text='Platforms of jobs that run on such a node; its own is always among them.', size=None)),
                ],
            ),
            migrations.CreateModel(
                name='Site',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('state', models.CharField(choices=[(resources.domain.enums.ResourceState['ACTIVE'], resources.domain.enums.ResourceState['ACTIVE']), (resources.domain.enums.ResourceState['DRAINING'], resources.domain.enums.ResourceState['DRAINING']), (resources.domain.enums.ResourceState['BANNED'], resources.domain.enums.ResourceState['BANNED'])], default=resources.domain.enums.ResourceState['ACTIVE'], max_length=16)),
                    ('state_reason', models.CharField(blank=True, max_length=255)),
                    ('state_until', models.DateTimeField(blank=True, help_text='End of the state; then it is active again.', null=True)),
                    ('state_changed_at', models.DateTimeField(default=django.utils.timezone.now)),
                    ('parameters', models.JSONField(blank=True, default=dict, validators=[resources.validators.valid_parameters])),
                    ('vo_parameters', models.JSONField(blank=True, default=dict, validators=[resources.validators.valid_vo_parameters], verbose_name='parameters by VO')),
                    ('name', models.CharField(max_length=128, unique=True, validators=[django.core.validators.RegexValidator(re.compile('[A-Za-z0-9_][A-Za-z0-9_.:@+-]*\\Z'), 'Use letters, digits and . _ : @ + - only, and begin with a letter, a digit or _.')])),
                    ('throttle_policy', models.CharField(blank=True, choices=[(resources.domain.enums.ThrottlePolicy['NONE'], 'none'), (resources.domain.enums.ThrottlePolicy['MATCHES'], resources.domain.enums.ThrottlePolicy['MATCHES']), (resources.domain.enums.ThrottlePolicy['LEVEL0'], resources.domain.enums.ThrottlePolicy['LEVEL0']), (resources.domain.enums.ThrottlePolicy['LEVEL1'], resources.domain.enums.ThrottlePolicy['LEVEL1']), (resources.domain.enums.ThrottlePolicy['LEVEL2'], resources.domain.enums.ThrottlePolicy['LEVEL2']), (resources.domain.enums.ThrottlePolicy['CUSTOM'], resources.domain.enums.ThrottlePolicy['CUSTOM'])], default=resources.domain.enums.ThrottlePolicy['NONE'], max_length=16)),
                    ('throttle_advertisement_s', models.PositiveIntegerField(default=300, validators=[django.core.validators.MinValueValidator(1)])),
                    ('throttle_when_expired', models.CharField(choices=[(resources.domain.enums.WhenExpired['COUNT'], resources.domain.enums.WhenExpired['COUNT']), (resources.domain.enums.WhenExpired['CLOSED'], resources.domain.enums.WhenExpired['CLOSED'])], default=resources.domain.enums.WhenExpired['COUNT'], max_length=16)),
                    ('throttle_requirements', models.TextField(blank=True, help_text='ClassAd expression of the policy custom.')),
                    ('max_matches', models.PositiveIntegerField(blank=True, null=True)),
                    ('max_submitting_jobs', models.PositiveIntegerField(blank=True, null=True)),
                    ('max_submitting_and_output_gathering_jobs', models.PositiveIntegerField(blank=True, null=True)),
                    ('max_jobs', models.PositiveIntegerField(blank=True, null=True)),
                    ('state_changed_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ('containers_provide_platforms', models.BooleanField(default=False, help_text="Jobs get the platforms of their queue from containers: where nodes can run containers, the queue's platforms hold whatever the node itself is.")),
                    ('vos', models.ManyToManyField(blank=True, help_text='VOs that the site serves; none chosen: all.', related_name='sites', to='accounts.vo', verbose_name='VOs')),
                ],
                options={
                    'constraints': [models.CheckConstraint(condition=models.Q(('state__in', [resources.domain.enums.ResourceState['ACTIVE'], resources.domain.enums.ResourceState['DRAINING'], resources.domain.enums.ResourceState['BANNED']])), name='site_state_is_known')],
                },
            ),
            migrations.CreateModel(
                name='ComputingElement',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('state', models.CharField(choices=[(resources.domain.enums.ResourceState['ACTIVE'], resources.domain.enums.ResourceState['ACTIVE']), (resources.domain.enums.ResourceState['DRAINING'], resources.domain.enums.ResourceState['DRAINING']), (resources.domain.enums.ResourceState['BANNED'], resources.domain.enums.ResourceState['BANNED'])], default=resources.domain.enums.ResourceState['ACTIVE'], max_length=16)),
                    ('state_reason', models.CharField(blank=True, max_length=255)),
                    ('state_until', models.DateTimeField(blank=True, help_text='End of the state; then it is active again.', null=True)),
                    ('state_changed_at', models.DateTimeField(default=django.utils.timezone.now)),
                    ('parameters', models.JSONField(blank=True, default=dict, validators=[resources.validators.valid_parameters])),
                    ('vo_parameters', models.JSONField(blank=True, default=dict, validators=[resources.validators.valid_vo_parameters], verbose_name='parameters by VO')),
                    ('name', models.CharField(max_length=128, validators=[django.core.validators.RegexValidator(re.compile('[A-Za-z0-9_][A-Za-z0-9_.:@+-]*\\Z'), 'Use letters, digits and . _ : @ + - only, and begin with a letter, a digit or _.')])),
                    ('type', models.CharField(choices=resources.models.ce_types, max_length=16)),
                    ('options', models.JSONField(blank=True, default=dict, help_text='Options of the backend: host, partition, account, …')),
                    ('pilot_types', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=[(resources.domain.enums.PilotType['PRIVATE'], resources.domain.enums.PilotType['PRIVATE']), (resources.domain.enums.PilotType['GENERIC'], resources.domain.enums.PilotType['GENERIC'])], max_length=16), blank=True, default=list, help_text='Kinds of pilot it accepts; empty: both.', size=None)),
                    ('identity', models.CharField(choices=[(resources.domain.enums.PayloadIdentity['NONE'], resources.domain.enums.PayloadIdentity['NONE']), (resources.domain.enums.PayloadIdentity['ENVIRONMENT'], resources.domain.enums.PayloadIdentity['ENVIRONMENT']), (resources.domain.enums.PayloadIdentity['SUDO'], resources.domain.enums.PayloadIdentity['SUDO'])], default=resources.domain.enums.PayloadIdentity['NONE'], max_length=16)),
                    ('state_changed_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ('site', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='ces', to='resources.site')),
                    ('middleware', models.CharField(blank=True, help_text='Name by which jobs may require computing elements of this kind; empty: the type.', max_length=128, verbose_name='grid middleware')),
                ],
                options={
                    'verbose_name': 'computing element',
                    'constraints': [models.UniqueConstraint(fields=('site', 'name'), name='ce_name_is_unique_at_its_site'), models.CheckConstraint(condition=models.Q(('state__in', [resources.domain.enums.ResourceState['ACTIVE'], resources.domain.enums.ResourceState['DRAINING'], resources.domain.enums.ResourceState['BANNED']])), name='ce_state_is_known')],
                },
            ),
            migrations.CreateModel(
                name='Queue',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('state', models.CharField(choices=[(resources.domain.enums.ResourceState['ACTIVE'], resources.domain.enums.ResourceState['ACTIVE']), (resources.domain.enums.ResourceState['DRAINING'], resources.domain.enums.ResourceState['DRAINING']), (resources.domain.enums.ResourceState['BANNED'], resources.domain.enums.ResourceState['BANNED'])], default=resources.domain.enums.ResourceState['ACTIVE'], max_length=16)),
                    ('state_reason', models.CharField(blank=True, max_length=255)),
                    ('state_until', models.DateTimeField(blank=True, help_text='End of the state; then it is active again.', null=True)),
                    ('state_changed_at', models.DateTimeField(default=django.utils.timezone.now)),
                    ('parameters', models.JSONField(blank=True, default=dict, validators=[resources.validators.valid_parameters])),
                    ('vo_parameters', models.JSONField(blank=True, default=dict, validators=[resources.validators.valid_vo_parameters], verbose_name='parameters by VO')),
                    ('name', models.CharField(max_length=128, validators=[django.core.validators.RegexValidator(re.compile('[A-Za-z0-9_][A-Za-z0-9_.:@+-]*\\Z'), 'Use letters, digits and . _ : @ + - only, and begin with a letter, a digit or _.')])),
                    ('cpu_time_s', models.PositiveIntegerField(help_text='CPU time of a slot, in reference-core seconds per core.', validators=[django.core.validators.MinValueValidator(1)])),
                    ('platforms', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), blank=True, default=list, help_text='Platforms of its nodes; empty: what the node itself detects.', size=None)),
                    ('processors', models.PositiveIntegerField(default=1, validators=[django.core.validators.MinValueValidator(1)])),
                    ('memory_mb', models.PositiveIntegerField(default=0, help_text='Memory of a slot; 0: only jobs that require no memory.')),
                    ('job_types', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), blank=True, default=list, help_text='Job types that the queue accepts; empty: all.', size=None)),
                    ('tags', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), blank=True, default=list, help_text='Tags that jobs may require.', size=None)),
                    ('required_tags', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), blank=True, default=list, help_text='Tags that a job must require to be accepted.', size=None)),
                    ('max_waiting_pilots', models.PositiveIntegerField(default=10)),
                    ('max_pilots', models.PositiveIntegerField(default=100)),
                    ('ce', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='queues', to='resources.computingelement', verbose_name='computing element')),
                    ('state_changed_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ('container', models.BooleanField(default=False, help_text='Whether its nodes can run containers.')),
                    ('disk_mb', models.PositiveIntegerField(default=0, help_text='Disk space of a slot; 0: only jobs that require no disk.')),
                    ('gpus', models.PositiveIntegerField(default=0, help_text='GPUs of a slot.', verbose_name='GPUs')),
                    ('wall_time_s', models.PositiveIntegerField(blank=True, help_text='From the start of a slot to its end; empty: not limited.', null=True, validators=[django.core.validators.MinValueValidator(1)], verbose_name='wall-clock time, s')),
                    ('saying', models.GeneratedField(db_persist=True, expression=django.db.models.functions.text.MD5(django.db.models.functions.text.Concat(django.db.models.functions.comparison.Cast('parameters', models.TextField()), django.db.models.functions.comparison.Cast('vo_parameters', models.TextField()))), output_field=models.CharField(max_length=32))),
                    ('max_stalled_s', models.PositiveIntegerField(blank=True, help_text='Longest window that a job may set for itself; it cannot exceed that of the VO. 0 or empty: as for the VO.', null=True, validators=[wms.accounts.stall_rule.valid_stall_window], verbose_name='longest window of jobs, s')),
                    ('stalled_cpu_fraction', models.FloatField(blank=True, help_text='CPU time per wall-clock time, 0 to 1 of a core, that counts as hardly any; empty: as for the VO.', null=True, validators=[django.core.validators.MinValueValidator(0.0), django.core.validators.MaxValueValidator(1.0)], verbose_name='stalled below, CPU fraction')),
                    ('stalled_s', models.PositiveIntegerField(blank=True, help_text='A payload with hardly any CPU time for this long is stopped; 0: never; empty: as for the VO.', null=True, validators=[wms.accounts.stall_rule.valid_stall_window], verbose_name='stalled after, s')),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('ce', 'name'), name='queue_name_is_unique_at_its_ce'), models.CheckConstraint(condition=models.Q(('tags__contains', models.F('required_tags'))), name='queue_required_tags_are_among_its_tags'), models.CheckConstraint(condition=models.Q(('stalled_cpu_fraction__range', (0, 1))), name='queue_stalled_cpu_fraction_is_0_to_1'), models.CheckConstraint(condition=models.Q(('state__in', [resources.domain.enums.ResourceState['ACTIVE'], resources.domain.enums.ResourceState['DRAINING'], resources.domain.enums.ResourceState['BANNED']])), name='queue_state_is_known')],
                },
            ),
            migrations.CreateModel(
                name='ReplicaChange',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('lfn', models.CharField(blank=True, help_text='Empty: any file.', max_length=255)),
                    ('looked_at', models.DateTimeField(help_text='First re-evaluation.', null=True)),
                    ('job_id', models.BigIntegerField(default=0, help_text='Last processed job, if there are many.')),
                    ('vo', models.ForeignKey(db_constraint=False, db_index=False, help_text='Null: all.', null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.vo')),
                ],
            ),
            migrations.CreateModel(
                name='ReportedPlatform',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('platform', models.CharField(max_length=128)),
                    ('host_name', models.CharField(blank=True, max_length=255)),
                    ('seen_at', models.DateTimeField(help_text='When a node last reported it, to the minute.')),
                    ('queue', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='reported_platforms', to='resources.queue')),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('queue', 'platform'), name='a_platform_is_reported_once_of_a_queue')],
                },
            ),
            migrations.CreateModel(
                name='RequirementDefinition',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.CharField(max_length=128, validators=[django.core.validators.RegexValidator(re.compile('[A-Za-z0-9_][A-Za-z0-9_.:@+-]*\\Z'), 'Use letters, digits and . _ : @ + - only, and begin with a letter, a digit or _.')])),
                    ('kind', models.CharField(choices=[(resources.domain.enums.RequirementKind['SET'], resources.domain.enums.RequirementKind['SET']), (resources.domain.enums.RequirementKind['CAPACITY'], resources.domain.enums.RequirementKind['CAPACITY']), (resources.domain.enums.RequirementKind['EXACT'], resources.domain.enums.RequirementKind['EXACT'])], max_length=16)),
                    ('unit', models.CharField(blank=True, max_length=32)),
                    ('vos', models.ManyToManyField(blank=True, help_text='None chosen: all.', to='accounts.vo', verbose_name='VOs')),
                ],
                options={
                    'constraints': [models.UniqueConstraint(django.db.models.functions.text.Lower('name'), name='requirement_name_is_unique_ignoring_case')],
                },
            ),
            migrations.CreateModel(
                name='ThrottleState',
                fields=[
                    ('site', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='throttle_state', serialize=False, to='resources.site')),
                    ('version', models.BigIntegerField(default=1, help_text='Higher with each advertisement, count or change of policy.')),
                    ('advertised', models.JSONField(default=dict, help_text='Numbers, by the names under which SAM advertises them; of several gateways, their sums.')),
                    ('classad', models.TextField(blank=True, help_text='The advertisement, when it came in ClassAd form and from one gateway.')),
                    ('advertised_at', models.DateTimeField(help_text='None: the server counted itself.', null=True)),
                    ('measured_at', models.DateTimeField(help_text='CurMatches counts the matches after it.')),
                    ('expires_at', models.DateTimeField()),
                    ('room', models.PositiveIntegerField(help_text='Matches from the measurement until it closes; none: an expression decides.', null=True)),
                    ('matched', models.PositiveIntegerField(default=0, help_text='Matches since the measurement.')),
                    ('gateways', models.JSONField(default=list, help_text='Last advertisement of each gateway; empty: the server counted itself.')),
                ],
            ),
            migrations.CreateModel(
                name='SiteThrottle',
                fields=[
                ],
                options={
                    'verbose_name': 'throttle',
                    'proxy': True,
                    'indexes': [],
                    'constraints': [],
                },
                bases=('resources.site',),
            ),
            migrations.CreateModel(
                name='SiteToken',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('purpose', models.CharField(choices=[(resources.domain.enums.SiteTokenPurpose['ADVERTISE'], resources.domain.enums.SiteTokenPurpose['ADVERTISE']), (resources.domain.enums.SiteTokenPurpose['REGISTER'], resources.domain.enums.SiteTokenPurpose['REGISTER'])], max_length=16)),
                    ('digest', models.BinaryField(max_length=32, unique=True)),
                    ('configured', models.BooleanField(default=False, help_text='Set by the configuration file, which may replace it.')),
                    ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                    ('revoked_at', models.DateTimeField(blank=True, null=True)),
                    ('site', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='tokens', to='resources.site')),
                    ('expires_at', models.DateTimeField(blank=True, help_text='End of its validity; empty: it does not expire.', null=True)),
                    ('registrations', models.PositiveIntegerField(default=0, help_text='Pilots that were registered with it.')),
                    ('registered_at', models.DateTimeField(blank=True, help_text='Last registration with it.', null=True)),
                ],
                options={
                    'indexes': [models.Index(fields=['site', 'purpose'], name='site_token_of_site')],
                },
            ),
            migrations.CreateModel(
                name='StorageElement',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.CharField(max_length=128, unique=True, validators=[django.core.validators.RegexValidator(re.compile('[A-Za-z0-9_][A-Za-z0-9_.:@+-]*\\Z'), 'Use letters, digits and . _ : @ + - only, and begin with a letter, a digit or _.')])),
                    ('url', models.CharField(help_text='file:// or https://; a file is stored at this address followed by its logical name.', max_length=500, verbose_name='URL')),
                    ('credential_encrypted', models.BinaryField(default=b'')),
                    ('credential_for_pilots', models.BooleanField(default=False, help_text='Pilots with a job that has files here are given the credential, with which they may read and write whatever it opens. Otherwise they get none.')),
                    ('vos', models.ManyToManyField(blank=True, help_text='VOs that the element serves; none chosen: nobody.', related_name='storage_elements', to='accounts.vo', verbose_name='VOs')),
                ],
            ),
            migrations.CreateModel(
                name='Replica',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('lfn', models.CharField(db_collation='C', help_text='Logical file name.', max_length=255, verbose_name='LFN')),
                    ('size_bytes', models.PositiveBigIntegerField(help_text='Size in bytes; empty: unknown.', null=True)),
                    ('checksum', models.CharField(blank=True, help_text='adler32:… or sha256:…; empty: unknown.', max_length=71)),
                    ('storage_element', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='resources.storageelement')),
                    ('vo', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.vo')),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('vo', 'lfn', 'storage_element'), name='a_storage_element_holds_a_file_of_a_vo_once'), models.CheckConstraint(condition=models.Q(('lfn__startswith', '/')), name='replica_lfn_is_an_absolute_path')],
                },
            ),
        ]),
        migrations.AddField(
            model_name='site',
            name='storage_elements',
            field=models.ManyToManyField(blank=True, related_name='sites', to='resources.storageelement'),
        ),
        # Each match writes the row again: room for the new version on the same page keeps the index as it is.
        migrations.RunSQL('ALTER TABLE resources_throttlestate SET (fillfactor = 20)', migrations.RunSQL.noop),
    ]
