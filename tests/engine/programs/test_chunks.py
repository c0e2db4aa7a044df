"""How many runs make a chunk."""

import pytest

from aide.engine.programs.places import Chunk


@pytest.mark.parametrize(
    ("rows", "threads", "size"),
    [
        (1, 2, 1),
        (3, 2, 2),
        (40, 2, 32),  # that of the tests of a gold standard,
        (100, 2, 32),  # and of an estimate with the defaults: one program
        (1000, 2, 512),
        (40, 1, 64),
        (100, 1, 128),
    ],
)
def test_similar_numbers_of_runs_share_a_size(rows, threads, size):
    assert Chunk(rows).size(2**12, threads) == size
    assert Chunk(rows).size(8, threads) == min(8, size)
    assert Chunk(rows, 5).size(2**12, threads) == min(5, rows)
