"""PostgreSQL leaves room beside each task, where its next version goes as long as no index has to know of it.

The reason why a task waits is written again and again. Where the new version of a row finds no room on its page,
all indexes get an entry for it, which takes twice to three times as long.
"""

from django.db import migrations

PERCENT_FILLED = 50


def leave_room(apps, schema_editor):
    """Fill pages only so far from now on; those that are there stay as they are until rows move."""
    _set(schema_editor, PERCENT_FILLED)


def fill_up(apps, schema_editor):
    """Fill pages as far as they go."""
    _set(schema_editor, 100)


def _set(schema_editor, percent):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f'ALTER TABLE "jobs_task" SET (fillfactor = {percent})')


class Migration(migrations.Migration):
    dependencies = [("jobs", "0014_pass_minutes")]

    operations = [migrations.RunPython(leave_room, fill_up)]
