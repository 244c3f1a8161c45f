"""Java virtual machines that tests start: each runs for seconds, so it compiles little and collects with one thread."""

QUICK_JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of such a JVM. Both cores are busy with tests, and the second compiler would take from them what it never
gives back: Spark's tests took a quarter longer with it."""
