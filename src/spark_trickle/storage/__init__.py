"""DuckLake 1.0: catalog, files, snapshots, change feed, commit, maintenance. Knows no Spark."""
