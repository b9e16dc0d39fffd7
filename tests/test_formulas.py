"""Cells of CSV that a spreadsheet would compute."""

from hypothesis import given
from hypothesis import strategies as st

from quotas.formulas import guarded, plain

CELLS = st.text(st.sampled_from("'=+-@\t\r＝＋－＠a1 "), max_size=6) | st.text()


@given(CELLS)
def test_no_guarded_cell_is_a_formula_and_each_is_found_again(cell: str) -> None:
    assert not guarded(cell).startswith(("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠"))
    assert plain(guarded(cell)) == cell


def test_what_is_no_text_is_left_as_it_is() -> None:
    assert (guarded(-5), guarded(None), plain(None)) == (-5, None, None)
