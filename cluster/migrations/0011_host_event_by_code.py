from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("cluster", "0010_card_minutes"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="hostevent",
            index=models.Index(fields=["host", "code", "at"], name="host_event_by_code"),
        ),
    ]
