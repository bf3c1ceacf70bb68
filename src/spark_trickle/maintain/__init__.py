"""Stream tables: their records, and how a refresh moves one from its frontier to a newer version."""
