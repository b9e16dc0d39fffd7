"""Mails to operators that are still to be sent."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """A row goes once the mail server has taken its mail."""

    dependencies = [("cluster", "0017_host_calls")]

    operations = [
        migrations.CreateModel(
            name="HostMail",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("next_at", models.DateTimeField()),
                ("tries", models.PositiveIntegerField(default=0)),
                (
                    "event",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="mail",
                        to="cluster.hostevent",
                    ),
                ),
            ],
        ),
    ]
