"""What a test of a topology loads: kernels and columns, and nothing that only a replay needs."""

from benchmarks.start_up import child


def test_the_test_driver_comes_without_spark_delta_and_dagster():
    loaded = set(child("driver")["loaded"])

    assert loaded.isdisjoint({"pyspark", "deltalake", "dagster", "great_expectations"})
    assert "numba" in loaded
