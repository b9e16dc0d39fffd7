from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("cluster", "0009_host_events"),
    ]

    operations = [
        migrations.AddField(
            model_name="card",
            name="fault",
            field=models.CharField(blank=True, db_default="", editable=False, max_length=32),
        ),
        migrations.AddField(
            model_name="host",
            name="cleared_faults",
            field=models.JSONField(default=list, editable=False),
        ),
        migrations.CreateModel(
            name="CardMinute",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "card_id", "minute", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("minute", models.IntegerField()),
                ("use_mean", models.PositiveSmallIntegerField(null=True)),
                ("use_max", models.PositiveSmallIntegerField(null=True)),
                ("memory_mean_mib", models.PositiveIntegerField(null=True)),
                ("memory_max_mib", models.PositiveIntegerField(null=True)),
                ("temperature_max_c", models.PositiveSmallIntegerField(null=True)),
                ("power_mean_w", models.PositiveSmallIntegerField(null=True)),
                ("power_max_w", models.PositiveSmallIntegerField(null=True)),
                ("ecc_corrected", models.PositiveIntegerField(null=True)),
                ("ecc_uncorrected", models.PositiveIntegerField(null=True)),
                ("outside", models.PositiveSmallIntegerField(null=True)),
                ("xids", models.CharField(blank=True, max_length=64)),
                (
                    "card",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.deletion.CASCADE,
                        related_name="+",
                        to="cluster.card",
                    ),
                ),
            ],
        ),
    ]
