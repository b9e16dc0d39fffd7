import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('quotas', '0004_platform_roles'),
    ]

    operations = [
        # Tokens made before go on as they were: for all that their users may do, and for ever.
        migrations.AddField(
            model_name='apitoken',
            name='scope',
            field=models.CharField(choices=[('read', 'read'), ('submit', 'submit'), ('manage', 'manage')], default='manage', max_length=8, verbose_name='scope'),
        ),
        migrations.AddField(
            model_name='apitoken',
            name='hint',
            field=models.CharField(blank=True, default='', editable=False, max_length=4, verbose_name='begins with'),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='apitoken',
            name='business',
            field=models.ForeignKey(blank=True, help_text='With this token its user is no more than he is in this business. Blank: all that he is.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='api_tokens', to='quotas.business', verbose_name='business'),
        ),
        migrations.AddField(
            model_name='apitoken',
            name='expires_at',
            field=models.DateTimeField(blank=True, help_text='Blank: it is valid until it is revoked.', null=True, verbose_name='expires'),
        ),
        migrations.AddField(
            model_name='apitoken',
            name='last_used_at',
            field=models.DateTimeField(editable=False, null=True, verbose_name='last used'),
        ),
        migrations.AlterField(
            model_name='apitoken',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_tokens', to=settings.AUTH_USER_MODEL, verbose_name='user'),
        ),
    ]
