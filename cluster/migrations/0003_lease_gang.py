from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('cluster', '0002_free_card_samples'),
    ]

    operations = [
        # The default is for the rows that are there, until the next migration fills them.
        migrations.AddField(
            model_name='cardlease',
            name='gang',
            field=models.BigIntegerField(default=0),
            preserve_default=False,
        ),
    ]
