"""Which rows matter: those that a key ties to a change."""
