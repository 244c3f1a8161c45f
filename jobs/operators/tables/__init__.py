"""Tables: where they come from, their stores, plain and versioned, steps over them, and views for who looks into them.

In: batches of records or changes. Out: changes (old, new). A view answers as of a row; it is fed with the owner's puts.
Not here: joins of tables (``joins``), aggregates of tables (``table_aggregates``).
"""
