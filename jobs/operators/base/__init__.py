"""What every operator is, and what families of them share: records that wait, the order in which branches merge,
records on which a function failed, segments of stores, and what is promised of tables.

In: batches and nodes' settings, as of any operator. Out: classes to inherit from. Not here: any rule of one family.
"""
