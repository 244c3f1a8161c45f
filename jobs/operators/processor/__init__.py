"""Processors that users write in Python: their run, stores, forwarded records and punctuations.

In: batches; records are handed to the user's ``process`` one by one. Out: what it forwards, in order. What users see:
``jobs/functions/processor_api.py``.
"""
