"""What a Spark is started with."""

from __future__ import annotations

import pytest

from spark_trickle.spark.sessions.session import configuration


@pytest.mark.parametrize("master", ["local[*]", "local[2]", "spark://host:7077", "yarn", "k8s://x"])
def test_only_a_local_driver_hides_on_the_loopback(master):
    """Executors on other machines could not reach it there."""
    found = configuration("UTC", {"spark.master": master, "spark.driver.memory": "3g"})
    assert found["spark.driver.memory"] == "3g"
    assert ("spark.driver.bindAddress" in found) == master.startswith("local")
    assert ("spark.driver.host" in found) == master.startswith("local")
    assert "spark.driver.host" in configuration("UTC", {})
