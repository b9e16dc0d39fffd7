import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("cluster", "0014_words"),
    ]

    operations = [
        migrations.CreateModel(
            name="BroughtJob",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("uid", models.CharField(max_length=64, unique=True)),
                ("namespace", models.CharField(max_length=64)),
                ("name", models.CharField(max_length=253)),
                ("owner", models.CharField(blank=True, max_length=150)),
                ("document", models.JSONField(default=dict)),
                ("faults", models.JSONField(default=list)),
                ("deleted", models.BooleanField(default=False)),
                ("task", models.BigIntegerField(null=True)),
                ("state", models.CharField(blank=True, max_length=16)),
                ("sentence", models.TextField(blank=True)),
                (
                    "region",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="cluster.region"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["region", "deleted"], name="brought_there")],
            },
        ),
    ]
