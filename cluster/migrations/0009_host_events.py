from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('cluster', '0008_instance_commit'),
    ]

    operations = [
        migrations.AddField(
            model_name='host',
            name='state_args',
            field=models.JSONField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name='host',
            name='agent_protocol',
            field=models.PositiveIntegerField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name='host',
            name='machine',
            field=models.CharField(blank=True, db_default='', editable=False, max_length=64),
        ),
        migrations.AddField(
            model_name='host',
            name='seat',
            field=models.CharField(blank=True, db_default='', editable=False, max_length=64),
        ),
        migrations.CreateModel(
            name='HostEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(verbose_name='time')),
                ('old_state', models.CharField(blank=True, max_length=16)),
                ('new_state', models.CharField(blank=True, max_length=16)),
                ('code', models.CharField(max_length=32)),
                ('args', models.JSONField(default=dict)),
                ('reason', models.CharField(blank=True, max_length=255, verbose_name='reason')),
                ('actor', models.ForeignKey(null=True, on_delete=models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='who')),
                ('host', models.ForeignKey(db_index=False, on_delete=models.deletion.CASCADE, related_name='events', to='cluster.host', verbose_name='host')),
            ],
            options={
                'verbose_name': 'host event',
                'verbose_name_plural': 'host events',
                'indexes': [models.Index(fields=['host', 'id'], name='host_event_by_host')],
            },
        ),
    ]
