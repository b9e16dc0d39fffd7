from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('cluster', '0009_host_events'),
        ('jobs', '0010_lists'),
    ]

    operations = [
        migrations.CreateModel(
            name='Strike',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('work', models.CharField(max_length=64)),
                ('at', models.DateTimeField()),
                ('sure', models.BooleanField()),
                ('lasted_s', models.FloatField()),
                ('proven', models.BooleanField(default=False)),
                ('host', models.ForeignKey(on_delete=models.deletion.CASCADE, related_name='+', to='cluster.host')),
                ('task', models.ForeignKey(db_index=False, on_delete=models.deletion.CASCADE, related_name='+', to='jobs.task')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('task', 'host', 'at'), name='strike_once')],
            },
        ),
    ]
