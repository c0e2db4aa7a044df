"""At every width no number and no heading is cut: columns go, which is said, then lines fold."""

import io
import re

import pytest
import rich.console
from support.results import RESULTS

from aide._core.algorithm import plain
from aide.reporting.grid import Grid, fit, wrap
from aide.reporting.page import grid_html

WIDTHS = (60, 80, 100, 140)
WIDE = Grid(
    ("target", "divergence (nats)", "sds too small by", "verdict", "k-hat"),
    (
        ("bootstrap, 10", "2.310 ± 0.110", "39% (tau)", "failed: at least 1.9 nats", "0.71"),
        ("optimal", "0.092 ± 0.011", "4%", "passed", "–"),
    ),
    ("failed", "passed"),
    frozenset({"target", "verdict"}),
    ("k-hat",),
)


def tokens(text):
    """Words and numbers, which stay in one piece: `0.31 ± 0.04` is one of them."""
    return re.sub(r" ± ", "±", plain(text)).split()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", RESULTS)
def test_every_result_fits_and_says_all_of_its_words(name, width):
    result = RESULTS[name]()
    console = rich.console.Console(record=True, width=width, file=io.StringIO())
    console.print(result)
    in_terminal = console.export_text()
    for text in (result._page().text(width), in_terminal):
        assert max(map(len, text.splitlines())) <= width
        assert "…" not in text
        shown = tokens(" ".join(text.split()))
        grid = result.grid()
        left_out = () if grid is None else fit(grid, width - 2).left_out
        for label, words in result.rows():
            if set(label.split(", ")) <= set(left_out):  # explains columns that are not shown
                continue
            assert set(tokens(f"{label} {words}")) <= set(shown)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", RESULTS)
def test_no_cell_of_a_table_is_cut(name, width):
    grid = RESULTS[name]()._page().grid
    if grid is None:
        return
    fitted = fit(grid, width)
    head, left_out = tokens(" ".join(fitted.head)), set(fitted.left_out)
    assert left_out <= set(grid.optional)
    for index, title in enumerate(grid.titles):
        if title in left_out:
            assert f"{', '.join(fitted.left_out)}" in " ".join(
                RESULTS[name]()._page().text(width + 2).split()
            )
            continue
        assert set(tokens(title)) <= set(head)
        for cells, lines in zip(grid.lines, fitted.entries, strict=True):
            if grid.is_text(index):
                assert set(tokens(cells[index])) <= set(tokens(" ".join(lines)))
            else:  # a number is in one piece
                assert any(cells[index] in line for line in lines)


def test_columns_go_in_their_order_then_the_rest_moves_to_a_second_line():
    at = {width: fit(WIDE, width) for width in (100, 75, 70, 48, 30)}
    assert [one.left_out for one in at.values()] == [(), (), ("k-hat",), ("k-hat",), ("k-hat",)]
    assert at[100].head == [
        "target         divergence (nats)  sds too small by  verdict                    k-hat"
    ]
    assert at[48].head == [
        "                                   sds too small",
        "target         divergence (nats)              by",
        "    verdict",
    ]
    first, second = at[48].entries
    assert first[0].split() == ["bootstrap,", "10", "2.310", "±", "0.110", "39%", "(tau)"]
    assert first[1].strip() == "failed: at least 1.9 nats"
    assert second[1].strip() == "passed"
    assert all(len(line) <= 30 for lines in at[30].entries for line in lines)


def test_a_table_that_cuts_would_be_noticed():
    """The control: what rich does to a column that has no room fails the rule above."""
    cut = "0.635 ± 0…"
    assert not set(tokens("0.635 ± 0.043")) <= set(tokens(cut))


def test_a_number_stays_with_its_sign_and_error():
    text = "the bound is ≤ 0.40 ± 0.11 nats and p < 1e-12 of a long sentence"
    for width in range(16, 40):
        lines = wrap(text, width)
        assert any("is ≤ 0.40 ± 0.11" in line for line in lines)
        assert any("p < 1e-12" in line for line in lines)
        assert " ".join(lines) == text


def test_long_words_of_others_are_folded_and_lose_nothing():
    path = "/very/long/" + "x" * 90
    assert "".join(wrap(path, 40)) == path
    assert max(map(len, wrap(path, 40))) <= 40


def test_long_names_are_broken_between_their_parts():
    name = "covariance_of_the_random_effects_by_region[4,3]"
    assert wrap(name, 24) == ["covariance_of_the_random_", "effects_by_region[4,3]"]
    counts = "rate_of_the_counts_by_age_and_sex[12]"
    assert wrap(counts, 34) == ["rate_of_the_counts_by_age_and_sex", "[12]"]


def test_html_has_all_columns_in_a_box_of_its_own():
    page = grid_html(WIDE)
    assert all(cell in page for line in WIDE.lines for cell in line)
    assert page.startswith('<div style="overflow-x:auto">')
    assert Grid.from_dict(WIDE.to_dict()) == WIDE
