"""How often a question what would have been was begun, so that one that ends workers is not begun for ever."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0019_pass_clock")]

    operations = [
        migrations.AddField(
            model_name="whatif",
            name="tries",
            field=models.PositiveSmallIntegerField(default=0),
        ),
    ]
