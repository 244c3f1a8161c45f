"""What aggregates of streams are made of: folding, decisions of kernels, results when a window closes, slots by key.

Used by ``aggregates`` alone, and knows none of its operators. In: rows and what a kernel decided. Out: updates.
"""
