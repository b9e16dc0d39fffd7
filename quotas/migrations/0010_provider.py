import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0009_history'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='GroupRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('group', models.CharField(help_text='As the provider writes it.', max_length=255, verbose_name='group')),
                ('role', models.CharField(choices=[('member', 'member'), ('lead', 'lead'), ('auditor', 'auditor'), ('operator', 'operator')], default='member', max_length=16, verbose_name='role')),
                ('business', models.ForeignKey(blank=True, help_text='For members and leads; blank for roles of the platform.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='quotas.business', verbose_name='business')),
            ],
            options={
                'verbose_name': 'group of the provider',
                'verbose_name_plural': 'groups of the provider',
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('business__isnull', False), ('role__in', ['member', 'lead'])), models.Q(('business__isnull', True), ('role__in', ['auditor', 'operator'])), _connector='OR'), name='group_rule_has_its_business', violation_error_message='Members and leads need a business; roles of the platform have none.'), models.UniqueConstraint(fields=('group', 'role', 'business'), name='group_rule_once')],
            },
        ),
        migrations.CreateModel(
            name='ProviderIdentity',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('issuer', models.CharField(max_length=255)),
                ('subject', models.CharField(max_length=255)),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='provider_identity', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'identity at the provider',
                'verbose_name_plural': 'identities at the provider',
                'constraints': [models.UniqueConstraint(fields=('issuer', 'subject'), name='identity_once')],
            },
        ),
    ]
