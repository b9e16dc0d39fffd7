import cluster.characters
import cluster.clock
import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0010_provider"),
    ]

    operations = [
        # Nothing in the database changes: SQLite would make the tables anew.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="apitoken",
                    name="created_at",
                    field=models.DateTimeField(
                        default=cluster.clock.now, editable=False, verbose_name="created"
                    ),
                ),
                migrations.AlterField(
                    model_name="apitoken",
                    name="name",
                    field=models.CharField(
                        max_length=64, validators=[cluster.characters.one_line], verbose_name="name"
                    ),
                ),
                migrations.AlterField(
                    model_name="business",
                    name="flag",
                    field=models.CharField(
                        max_length=64,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[^\\s/\\\\\\x00-\\x1f.][^/\\\\\\x00-\\x1f]*$", "No slashes, no leading dot."
                            ),
                            cluster.characters.one_line,
                        ],
                        verbose_name="business_flag",
                    ),
                ),
                migrations.AlterField(
                    model_name="business",
                    name="name",
                    field=models.CharField(
                        blank=True,
                        max_length=128,
                        validators=[cluster.characters.one_line],
                        verbose_name="name",
                    ),
                ),
                migrations.AlterField(
                    model_name="grouprule",
                    name="group",
                    field=models.CharField(
                        help_text="As the provider writes it.",
                        max_length=255,
                        validators=[cluster.characters.one_line],
                        verbose_name="group",
                    ),
                ),
                migrations.AlterField(
                    model_name="historicalbusiness",
                    name="flag",
                    field=models.CharField(
                        db_index=True,
                        max_length=64,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[^\\s/\\\\\\x00-\\x1f.][^/\\\\\\x00-\\x1f]*$", "No slashes, no leading dot."
                            ),
                            cluster.characters.one_line,
                        ],
                        verbose_name="business_flag",
                    ),
                ),
                migrations.AlterField(
                    model_name="historicalbusiness",
                    name="name",
                    field=models.CharField(
                        blank=True,
                        max_length=128,
                        validators=[cluster.characters.one_line],
                        verbose_name="name",
                    ),
                ),
                migrations.AlterField(
                    model_name="historicalreservation",
                    name="note",
                    field=models.CharField(
                        blank=True,
                        max_length=255,
                        validators=[cluster.characters.one_line],
                        verbose_name="note",
                    ),
                ),
                migrations.AlterField(
                    model_name="reservation",
                    name="note",
                    field=models.CharField(
                        blank=True,
                        max_length=255,
                        validators=[cluster.characters.one_line],
                        verbose_name="note",
                    ),
                ),
            ]
        )
    ]
