import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('jobs', '0009_template_user'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=Q(('state__in', ['blocked', 'held', 'queued'])), fields=['queued_at', 'id'], name='task_by_wait'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=Q(('ended_at__isnull', False)), fields=['-ended_at', '-id'], name='task_by_end'),
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=40, verbose_name='name')),
                ('query', models.CharField(max_length=2000)),
                ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='saved_views', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'saved view',
                'verbose_name_plural': 'saved views',
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('user', 'name'), name='saved_view_name_once')],
            },
        ),
    ]
