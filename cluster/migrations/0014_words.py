
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('cluster', '0013_gpu_type_history'),
    ]

    operations = [
        migrations.AlterField(
            model_name='card',
            name='uuid',
            field=models.CharField(blank=True, max_length=96, verbose_name='UUID'),
        ),
    ]
