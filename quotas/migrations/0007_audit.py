from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0006_sessions'),
    ]

    operations = [
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_index=True, verbose_name='time')),
                ('deed', models.CharField(max_length=48, verbose_name='deed')),
                ('actor_id', models.BigIntegerField(null=True, verbose_name='user id')),
                ('actor', models.CharField(blank=True, max_length=150, verbose_name='user')),
                ('kind', models.CharField(blank=True, max_length=32, verbose_name='kind')),
                ('target_id', models.CharField(blank=True, max_length=64, verbose_name='id')),
                ('target', models.CharField(blank=True, max_length=255, verbose_name='done to')),
                ('address', models.CharField(blank=True, max_length=45, verbose_name='address')),
                ('agent', models.CharField(blank=True, max_length=255, verbose_name='browser or program')),
                ('token_id', models.BigIntegerField(null=True, verbose_name='token id')),
                ('args', models.JSONField(default=dict, verbose_name='details')),
            ],
            options={
                'verbose_name': 'audit entry',
                'verbose_name_plural': 'audit',
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['actor', '-id'], name='audit_by_actor'), models.Index(fields=['deed', '-id'], name='audit_by_deed'), models.Index(fields=['kind', 'target_id', '-id'], name='audit_by_target'), models.Index(fields=['address', '-id'], name='audit_by_address')],
            },
        ),
    ]
