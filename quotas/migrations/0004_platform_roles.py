import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('quotas', '0003_day_use'),
    ]

    operations = [
        migrations.AddField(
            model_name='member',
            name='provider',
            field=models.BooleanField(default=False, editable=False, verbose_name='from the identity provider'),
        ),
        migrations.CreateModel(
            name='PlatformRole',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('operator', 'operator'), ('auditor', 'auditor')], max_length=16, verbose_name='role')),
                ('provider', models.BooleanField(default=False, editable=False, verbose_name='from the identity provider')),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='platform_role', to=settings.AUTH_USER_MODEL, verbose_name='user')),
            ],
            options={
                'verbose_name': 'role of the platform',
                'verbose_name_plural': 'roles of the platform',
            },
        ),
    ]
