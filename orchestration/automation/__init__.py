"""What starts runs by itself, and jobs launched from Dagster's pages: the sensor on lag, and jobs of branches.

In: a pipeline. Out: sensors and jobs beside those of the pipeline's assets. Every job calls what the command of its
name calls; a pipeline whose definitions ask for none of this has none.
"""
