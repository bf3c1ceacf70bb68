"""How Java and Spark run where a test starts them."""

from __future__ import annotations

JAVA_OF_TESTS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=200m"
)
"""Most queries run once: the second compiler and threads that collect garbage cost more than they give.

With one compiler Java would keep 48 MB for compiled code, which are full after half a minute: all
that comes later would be interpreted. And each time that its classes need half as much room again, up
to those of Spark, it would look through the whole heap.
"""
SPARK_OF_TESTS = {
    "spark.driver.defaultJavaOptions": JAVA_OF_TESTS,
    # What Spark remembers of a thousand queries for people who look at them, and pages of 32 MB for
    # a dozen rows, fill 2 GB in half an hour. Then a fifth of the time goes into collecting garbage.
    "spark.sql.ui.retainedExecutions": "100",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.buffer.pageSize": "1m",
}
