from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0007_audit'),
    ]

    operations = [
        migrations.CreateModel(
            name='LoginTries',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=80, unique=True)),
                ('failures', models.PositiveIntegerField()),
                ('since', models.DateTimeField(db_index=True)),
            ],
        ),
    ]
