
import django.db.models.deletion
import jobs.states
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('cluster', '0014_words'),
        ('jobs', '0017_what_ifs'),
        ('quotas', '0009_history'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='attempt',
            options={'verbose_name': 'attempt', 'verbose_name_plural': 'attempts'},
        ),
        migrations.AlterField(
            model_name='attempt',
            name='cards',
            field=models.PositiveIntegerField(verbose_name='cards'),
        ),
        migrations.AlterField(
            model_name='attempt',
            name='created_at',
            field=models.DateTimeField(verbose_name='cards given'),
        ),
        migrations.AlterField(
            model_name='attempt',
            name='ended_at',
            field=models.DateTimeField(null=True, verbose_name='ended'),
        ),
        migrations.AlterField(
            model_name='attempt',
            name='ending',
            field=models.CharField(blank=True, choices=[('succeeded', 'succeeded'), ('failed', 'failed'), ('stopped', 'stopped'), ('evicted', 'evicted'), ('lost', 'lost')], max_length=16, verbose_name='told to end as'),
        ),
        migrations.AlterField(
            model_name='attempt',
            name='ending_at',
            field=models.DateTimeField(null=True, verbose_name='told to end'),
        ),
        migrations.AlterField(
            model_name='attempt',
            name='ending_code',
            field=models.CharField(blank=True, max_length=32, verbose_name='why it was told'),
        ),
        migrations.AlterField(
            model_name='attempt',
            name='evict_rule',
            field=models.CharField(blank=True, max_length=32, verbose_name='rule'),
        ),
        migrations.AlterField(
            model_name='attempt',
            name='evicted_for',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='jobs.task', verbose_name='evicted for'),
        ),
        migrations.AlterField(
            model_name='attempt',
            name='gpu_type',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='cluster.gputype', verbose_name='GPU type'),
        ),
        migrations.AlterField(
            model_name='attempt',
            name='keep_until',
            field=models.DateTimeField(null=True, verbose_name='place kept until'),
        ),
        migrations.AlterField(
            model_name='attempt',
            name='number',
            field=models.PositiveIntegerField(verbose_name='number'),
        ),
        migrations.AlterField(
            model_name='attempt',
            name='outcome',
            field=models.CharField(blank=True, choices=[('succeeded', 'succeeded'), ('failed', 'failed'), ('stopped', 'stopped'), ('evicted', 'evicted'), ('lost', 'lost')], max_length=16, verbose_name='outcome'),
        ),
        migrations.AlterField(
            model_name='attempt',
            name='outcome_code',
            field=models.CharField(blank=True, max_length=32, verbose_name='why it ended'),
        ),
        migrations.AlterField(
            model_name='attempt',
            name='running_at',
            field=models.DateTimeField(null=True, verbose_name='all ran'),
        ),
        migrations.AlterField(
            model_name='attempt',
            name='task',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='attempts', to='jobs.task', verbose_name='task'),
        ),
        migrations.AlterField(
            model_name='attempt',
            name='task_class',
            field=models.CharField(choices=[('high', 'high'), ('elastic', 'elastic'), ('auto', 'auto')], max_length=8, verbose_name='class'),
        ),
        migrations.AlterField(
            model_name='task',
            name='business',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='tasks', to='quotas.business', verbose_name='business'),
        ),
        migrations.AlterField(
            model_name='task',
            name='ended_at',
            field=models.DateTimeField(null=True, verbose_name='ended'),
        ),
        migrations.AlterField(
            model_name='task',
            name='host_gpu_num',
            field=models.PositiveIntegerField(verbose_name='cards on each host'),
        ),
        migrations.AlterField(
            model_name='task',
            name='host_num',
            field=models.PositiveIntegerField(verbose_name='hosts'),
        ),
        migrations.AlterField(
            model_name='task',
            name='origin',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='copies', to='jobs.task', verbose_name='copied from'),
        ),
        migrations.AlterField(
            model_name='task',
            name='priority',
            field=models.SmallIntegerField(choices=[(0, 'low'), (1, 'medium'), (2, 'high')], default=1, verbose_name='priority'),
        ),
        migrations.AlterField(
            model_name='task',
            name='queued_at',
            field=models.DateTimeField(auto_now_add=True, verbose_name='waits since'),
        ),
        migrations.AlterField(
            model_name='task',
            name='ready_at',
            field=models.DateTimeField(null=True, verbose_name='not before'),
        ),
        migrations.AlterField(
            model_name='task',
            name='reason_code',
            field=models.CharField(blank=True, max_length=32, verbose_name='reason'),
        ),
        migrations.AlterField(
            model_name='task',
            name='region',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='cluster.region', verbose_name='region'),
        ),
        migrations.AlterField(
            model_name='task',
            name='state',
            field=models.CharField(choices=[('blocked', 'blocked'), ('queued', 'queued'), ('held', 'held'), ('starting', 'starting'), ('running', 'running'), ('evicting', 'evicting'), ('stopping', 'stopping'), ('keeping', 'place kept'), ('succeeded', 'succeeded'), ('failed', 'failed'), ('stopped', 'stopped'), ('evicted', 'evicted')], default=jobs.states.State['QUEUED'], max_length=16, verbose_name='state'),
        ),
        migrations.AlterField(
            model_name='task',
            name='submitted_at',
            field=models.DateTimeField(auto_now_add=True, verbose_name='submitted'),
        ),
        migrations.AlterField(
            model_name='task',
            name='task_flag',
            field=models.CharField(max_length=255, verbose_name='name'),
        ),
        migrations.AlterField(
            model_name='task',
            name='user',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='tasks', to=settings.AUTH_USER_MODEL, verbose_name='user'),
        ),
        migrations.AlterField(
            model_name='task',
            name='wanted_class',
            field=models.CharField(choices=[('high', 'high'), ('elastic', 'elastic'), ('auto', 'auto')], max_length=8, verbose_name='class'),
        ),
        migrations.AlterField(
            model_name='template',
            name='business',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, to='quotas.business', verbose_name='business'),
        ),
    ]
