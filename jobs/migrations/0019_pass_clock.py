
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0018_words'),
    ]

    operations = [
        migrations.AddField(
            model_name='passlease',
            name='clock_off_s',
            field=models.FloatField(db_default=0.0, default=0.0),
        ),
    ]
