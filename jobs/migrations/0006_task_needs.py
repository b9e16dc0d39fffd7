from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0005_sources'),
    ]

    operations = [
        migrations.AddField(
            model_name='task',
            name='needs',
            field=models.CharField(default='process', max_length=32),
        ),
    ]
