"""State files as sorted runs, and warm copies of them on local disks.

In: changed rows of a store. Out: one file by rising hash of the key; the newest row of every key that is asked for.
"""
