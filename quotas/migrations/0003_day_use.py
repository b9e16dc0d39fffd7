import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("cluster", "0011_host_event_by_code"),
        ("quotas", "0002_reservations"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddIndex(
            model_name="usagerow",
            index=models.Index(fields=["business", "ended_at", "id"], name="usage_by_business"),
        ),
        migrations.AlterField(
            model_name="usagerow",
            name="business",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="usage",
                to="quotas.business",
            ),
        ),
        migrations.CreateModel(
            name="DayUseKept",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("through", models.DateTimeField()),
                ("zone", models.CharField(max_length=64)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("pk", 1)), name="one_day_use_kept")
                ],
            },
        ),
        migrations.CreateModel(
            name="DayUse",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                ("task_class", models.CharField(max_length=8)),
                ("card_s", models.FloatField()),
                (
                    "business",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="quotas.business",
                    ),
                ),
                (
                    "gpu_type",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="cluster.gputype",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "use on a day",
                "verbose_name_plural": "use by day",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("business", "day", "gpu_type", "task_class", "user"), name="day_use_once"
                    )
                ],
            },
        ),
    ]
