from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0007_source_names'),
    ]

    operations = [
        migrations.AddField(
            model_name='passlease',
            name='marks_taken',
            field=models.BigIntegerField(default=0),
        ),
    ]
