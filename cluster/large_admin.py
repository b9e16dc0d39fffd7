"""Lists of the admin over tables of any length: nothing is counted to its end, nor sorted without an index."""

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.http import HttpRequest
from django.utils.functional import cached_property

# Of a list, at most: to count all of a million takes longer than to show a page of them.
ROWS_COUNTED = 10_000


class ShortPaginator(Paginator):
    """Pages of the first rows of a list; who looks for others searches."""

    @cached_property
    def count(self) -> int:
        """Return how many there are, as far as they are counted."""
        rows: Any = self.object_list
        return int(rows.order_by()[:ROWS_COUNTED].count())


class IndexedList(ChangeList):
    """A list that is sorted by columns with an index alone, also where its address asks for another."""

    def get_ordering_field(self, field_name: Any) -> Any:
        """Return what the rows are sorted by for a column, None where they are not."""
        return super().get_ordering_field(field_name) if field_name in (self.sortable_by or ()) else None


class Large(admin.ModelAdmin):
    """Rows of which there may be millions; searches and filters are by what has an index."""

    paginator = ShortPaginator
    show_full_result_count = False
    sortable_by: ClassVar[list[str] | tuple[str, ...] | None] = ()

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list."""
        return IndexedList
