from django.db import migrations, models


def leave_unmarked(apps, schema_editor):
    """Take the triggers away that engine/changes.py puts on after migrating."""
    from jobs.engine import changes

    changes.unwatch()


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0001_first'),
    ]

    operations = [
        migrations.CreateModel(
            name='Change',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ],
        ),
        migrations.CreateModel(
            name='PastUse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('through', models.DateTimeField()),
                ('half_life_s', models.FloatField()),
                ('sums', models.JSONField(default=list)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('pk', 1)), name='one_past_use')],
            },
        ),
        migrations.AddField(
            model_name='passlease',
            name='due_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(condition=models.Q(('outcome', 'evicted')), fields=['ended_at'], name='attempt_evicted'),
        ),
        migrations.RunPython(migrations.RunPython.noop, leave_unmarked),
    ]
