from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0005_token_scopes'),
    ]

    operations = [
        migrations.CreateModel(
            name='OwnedSession',
            fields=[
                ('session_key', models.CharField(max_length=40, primary_key=True, serialize=False, verbose_name='session key')),
                ('session_data', models.TextField(verbose_name='session data')),
                ('expire_date', models.DateTimeField(db_index=True, verbose_name='expire date')),
                ('user_id', models.BigIntegerField(db_index=True, null=True)),
            ],
            options={
                'db_table': 'quotas_session',
                'abstract': False,
                'verbose_name': 'session',
                'verbose_name_plural': 'sessions',
            },
        ),
    ]
