from django.conf import settings
from django.db import migrations, models

import jobs.models


class Migration(migrations.Migration):

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('jobs', '0011_strikes'),
    ]

    operations = [
        migrations.AlterField(
            model_name='template',
            name='user',
            field=models.ForeignKey(blank=True, null=True, on_delete=jobs.models.leave_with_maker, related_name='templates', to=settings.AUTH_USER_MODEL, verbose_name='user'),
        ),
    ]
