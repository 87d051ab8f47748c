"""All migrations up to version 0.1.0 in one: made by makemigrations, but for statements in SQL (CONTRIBUTING.md)."""

import django.contrib.auth.models
import django.contrib.auth.validators
import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import django.utils.timezone
import re
import wms.accounts.domain
import wms.accounts.stall_rule
from django.conf import settings
from django.db import migrations, models

from wms.kernel.squashed import CreateModels


class Migration(migrations.Migration):
    replaces = [
        ('accounts', '0001_initial'),
        ('accounts', '0002_sharing_of_a_vo'),
        ('accounts', '0003_stall_rule_of_a_vo'),
        ('accounts', '0004_composed_setups'),
        ('accounts', '0005_stall_windows_have_a_least'),
        ('accounts', '0006_security_events'),
        ('accounts', '0007_devices_of_failed_log_ins'),
        ('accounts', '0008_credentials_end_with_passwords'),
        ('accounts', '0009_production_groups'),
        ('accounts', '0010_invitations'),
        ('accounts', '0011_plain_help_texts'),
        ('accounts', '0012_indexes_that_no_query_uses'),
        ('accounts', '0013_mail_about_submissions'),
    ]
    initial = True
    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
    ]
    operations = [
        CreateModels([
            migrations.CreateModel(
                name='VO',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.CharField(max_length=64, unique=True, validators=[django.core.validators.RegexValidator(re.compile('[A-Za-z0-9_][A-Za-z0-9_.:@+-]*\\Z'), 'Use letters, digits and . _ : @ + - only, and begin with a letter, a digit or _.')])),
                    ('setup', models.CharField(help_text='Setup of jobs and pilots that name none.', max_length=64)),
                    ('setups', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=64), help_text='Every setup that jobs of this VO may name; holds the default.', size=None)),
                    ('any_segment_fraction', models.FloatField(blank=True, default=0.0, help_text='Part of the matches, 0 to 1, in which jobs of all CPU segments compete, not the longest alone: above 0, so that long jobs cannot starve short ones for ever.', validators=[django.core.validators.MinValueValidator(0.0), django.core.validators.MaxValueValidator(1.0)])),
                    ('history_fair_share', models.BooleanField(default=False, help_text='Correct the shares of groups by their recent usage, by a factor of 3 at most in either direction.')),
                    ('max_stalled_s', models.PositiveIntegerField(blank=True, help_text='Longest window that a job may set for itself; 0: any, also none; empty: WMS_MAX_STALLED_S.', null=True, validators=[wms.accounts.stall_rule.valid_stall_window], verbose_name='longest window of jobs, s')),
                    ('stalled_cpu_fraction', models.FloatField(blank=True, help_text='CPU time per wall-clock time, 0 to 1 of a core, that counts as hardly any; empty: 0.05.', null=True, validators=[django.core.validators.MinValueValidator(0.0), django.core.validators.MaxValueValidator(1.0)], verbose_name='stalled below, CPU fraction')),
                    ('stalled_s', models.PositiveIntegerField(blank=True, help_text='A payload with hardly any CPU time for this long is stopped; 0: never; empty: 1800 s.', null=True, validators=[wms.accounts.stall_rule.valid_stall_window], verbose_name='stalled after, s')),
                ],
                options={
                    'verbose_name': 'VO',
                    'constraints': [models.CheckConstraint(condition=models.Q(('setups__contains', [models.F('setup')])), name='vo_default_setup_is_one_of_its_setups'), models.CheckConstraint(condition=models.Q(('any_segment_fraction__range', (0, 1))), name='vo_any_segment_fraction_is_0_to_1'), models.CheckConstraint(condition=models.Q(('stalled_cpu_fraction__range', (0, 1))), name='vo_stalled_cpu_fraction_is_0_to_1')],
                },
            ),
            migrations.CreateModel(
                name='Group',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.CharField(max_length=64, unique=True, validators=[django.core.validators.RegexValidator(re.compile('[A-Za-z0-9_][A-Za-z0-9_.:@+-]*\\Z'), 'Use letters, digits and . _ : @ + - only, and begin with a letter, a digit or _.')])),
                    ('priority', models.FloatField(default=1.0, help_text='Share of the group, relative to the other groups; 0: its jobs are never matched.', validators=[django.core.validators.MinValueValidator(0.0)])),
                    ('properties', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=[(wms.accounts.domain.GroupProperty['JOB_SHARING'], wms.accounts.domain.GroupProperty['JOB_SHARING']), (wms.accounts.domain.GroupProperty['PRODUCTION'], wms.accounts.domain.GroupProperty['PRODUCTION'])], max_length=32), blank=True, default=list, size=None)),
                    ('vo', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='groups', to='accounts.vo')),
                ],
                options={
                    'constraints': [models.CheckConstraint(condition=models.Q(('priority__range', (0, 1000000000000.0))), name='group_priority_is_finite_and_not_negative')],
                },
            ),
            migrations.CreateModel(
                name='User',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('password', models.CharField(max_length=128, verbose_name='password')),
                    ('last_login', models.DateTimeField(blank=True, null=True, verbose_name='last login')),
                    ('is_superuser', models.BooleanField(default=False, help_text='Designates that this user has all permissions without explicitly assigning them.', verbose_name='superuser status')),
                    ('username', models.CharField(error_messages={'unique': 'A user with that username already exists.'}, help_text='Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.', max_length=150, unique=True, validators=[django.contrib.auth.validators.UnicodeUsernameValidator()], verbose_name='username')),
                    ('first_name', models.CharField(blank=True, max_length=150, verbose_name='first name')),
                    ('last_name', models.CharField(blank=True, max_length=150, verbose_name='last name')),
                    ('email', models.EmailField(blank=True, max_length=254, verbose_name='email address')),
                    ('is_staff', models.BooleanField(default=False, help_text='Designates whether the user can log into this admin site.', verbose_name='staff status')),
                    ('is_active', models.BooleanField(default=True, help_text='Designates whether this user should be treated as active. Unselect this instead of deleting accounts.', verbose_name='active')),
                    ('date_joined', models.DateTimeField(default=django.utils.timezone.now, verbose_name='date joined')),
                    ('operator', models.BooleanField(default=False, help_text='Runs the system: sees and manages every VO.')),
                    ('default_group', models.ForeignKey(blank=True, help_text='Group in which the user acts if none is named.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='accounts.group')),
                    ('suspensions', models.PositiveIntegerField(default=0, editable=False, help_text='Number of suspensions, counted by a trigger.')),
                    ('mail_when', models.CharField(choices=[(wms.accounts.domain.MailWhen['NEVER'], wms.accounts.domain.MailWhen['NEVER']), (wms.accounts.domain.MailWhen['ENDED'], wms.accounts.domain.MailWhen['ENDED']), (wms.accounts.domain.MailWhen['FAILED'], wms.accounts.domain.MailWhen['FAILED'])], default=wms.accounts.domain.MailWhen['NEVER'], editable=False, help_text='When mail about a submission of the user is sent; chosen by the user.', max_length=8)),
                    ('waits_since', models.DateTimeField(blank=True, editable=False, help_text='Time of the first log-in by OpenID Connect; empty: admitted by a manager, or added by an operator.', null=True)),
                    ('groups', models.ManyToManyField(blank=True, help_text='The groups this user belongs to. A user will get all permissions granted to each of their groups.', related_name='user_set', related_query_name='user', to='auth.group', verbose_name='groups')),
                    ('user_permissions', models.ManyToManyField(blank=True, help_text='Specific permissions for this user.', related_name='user_set', related_query_name='user', to='auth.permission', verbose_name='user permissions')),
                ],
                options={
                    'verbose_name': 'user',
                    'verbose_name_plural': 'users',
                    'abstract': False,
                    'constraints': [models.CheckConstraint(condition=models.Q(('mail_when__in', [wms.accounts.domain.MailWhen['NEVER'], wms.accounts.domain.MailWhen['ENDED'], wms.accounts.domain.MailWhen['FAILED']])), name='user_mail_when_is_known')],
                },
                managers=[
                    ('objects', django.contrib.auth.models.UserManager()),
                ],
            ),
            migrations.CreateModel(
                name='FailedLogIn',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name_digest', models.BinaryField(max_length=32)),
                    ('address', models.CharField(editable=False, max_length=64)),
                    ('failed_at', models.DateTimeField()),
                    ('device', models.CharField(default='', editable=False, max_length=32)),
                    ('of_code', models.BooleanField(default=False, editable=False)),
                ],
                options={
                    'verbose_name': 'failed log-in',
                    'indexes': [models.Index(fields=['failed_at'], name='failed_log_in_recent')],
                },
            ),
            migrations.CreateModel(
                name='Invitation',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('username', models.CharField(help_text='The exact name; letter case counts.', max_length=150, verbose_name='user name')),
                    ('created_at', models.DateTimeField(editable=False, verbose_name='sent at')),
                    ('expires_at', models.DateTimeField(editable=False)),
                    ('declined_at', models.DateTimeField(editable=False, null=True)),
                    ('group', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='invitations', to='accounts.group')),
                    ('invited_by', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ],
                options={
                    'indexes': [models.Index(fields=['username'], name='invitation_by_name')],
                    'constraints': [models.UniqueConstraint(fields=('group', 'username'), name='name_is_invited_to_a_group_once')],
                },
            ),
            migrations.CreateModel(
                name='Membership',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('group', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='accounts.group')),
                    ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('user', 'group'), name='user_is_member_of_a_group_once')],
                },
            ),
            migrations.CreateModel(
                name='PasswordLink',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('digest', models.BinaryField(max_length=32, unique=True)),
                    ('created_at', models.DateTimeField()),
                    ('expires_at', models.DateTimeField()),
                    ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='password_link', to=settings.AUTH_USER_MODEL)),
                ],
            ),
            migrations.CreateModel(
                name='SecurityEvent',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('at', models.DateTimeField(help_text='Time of the event; of a repeated refusal, the first.')),
                    ('kind', models.CharField(max_length=40)),
                    ('actor_name', models.CharField(blank=True, help_text='Empty: nobody known. With spaces: no user, but a program.', max_length=150, verbose_name='who')),
                    ('address', models.CharField(blank=True, help_text='Address of the client; empty: no request.', max_length=64)),
                    ('target', models.CharField(blank=True, help_text='Object of the action.', max_length=250)),
                    ('facts', models.JSONField(blank=True, default=dict, help_text='Names, ids and states.')),
                    ('times', models.PositiveBigIntegerField(default=1, help_text='Of refusals: so often at least, and less than twice as often, within one minute.')),
                    ('actor', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ],
                options={
                    'verbose_name': 'security event',
                    'indexes': [models.Index(fields=['at', 'id'], name='security_event_by_time'), models.Index(fields=['kind', 'at'], name='security_event_by_kind')],
                },
            ),
            migrations.CreateModel(
                name='UserDN',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('dn', models.CharField(max_length=255, unique=True, verbose_name='DN')),
                    ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='dns', to=settings.AUTH_USER_MODEL)),
                ],
                options={
                    'verbose_name': 'DN',
                },
            ),
            migrations.CreateModel(
                name='ApiToken',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('digest', models.BinaryField(max_length=32, unique=True)),
                    ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                    ('expires_at', models.DateTimeField()),
                    ('revoked_at', models.DateTimeField(blank=True, null=True)),
                    ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_tokens', to=settings.AUTH_USER_MODEL)),
                    ('last_used_at', models.DateTimeField(blank=True, help_text='Last use, within some minutes; empty: never.', null=True)),
                    ('name', models.CharField(blank=True, help_text='Name given by the user.', max_length=100)),
                    ('scope', models.CharField(choices=[(wms.accounts.domain.TokenScope['READ'], wms.accounts.domain.TokenScope['READ']), (wms.accounts.domain.TokenScope['SUBMIT'], wms.accounts.domain.TokenScope['SUBMIT']), (wms.accounts.domain.TokenScope['MANAGE'], wms.accounts.domain.TokenScope['MANAGE'])], default=wms.accounts.domain.TokenScope['MANAGE'], help_text='Scope of the token: the requests that it allows.', max_length=16)),
                ],
                options={
                    'constraints': [models.CheckConstraint(condition=models.Q(('scope__in', [wms.accounts.domain.TokenScope['READ'], wms.accounts.domain.TokenScope['SUBMIT'], wms.accounts.domain.TokenScope['MANAGE']])), name='api_token_scope_is_known')],
                },
            ),
        ]),
        migrations.AddField(
            model_name='vo',
            name='managers',
            field=models.ManyToManyField(blank=True, related_name='managed_vos', to=settings.AUTH_USER_MODEL),
        ),
    ]
