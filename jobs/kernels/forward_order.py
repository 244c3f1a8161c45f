"""Two batches in the order of their causes.

Rule: of rows of one cause those of the first batch come first, and those of one batch stay in their order.

Arrays: ``first`` int32 and ``second`` int32 (rows of that batch,). ``which`` int8 and ``row`` int64 (rows of both,).
"""

from ...state.compilation.kernel_compilation import kernel


@kernel
def merge_two(first, second, which, row):  # type: ignore[no-untyped-def]
    """``first``/``second``: causes, never falling. Writes the batch (0 or 1) and the row in it of every merged row."""
    i, j = 0, 0
    for merged in range(which.shape[0]):
        # Both are in order, and at a tie the first batch goes first: the branch to the earlier child ran before.
        takes_first = j == second.shape[0] or (i < first.shape[0] and first[i] <= second[j])
        which[merged], row[merged] = not takes_first, i if takes_first else j
        i, j = i + takes_first, j + (not takes_first)
