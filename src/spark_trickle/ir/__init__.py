"""What a query means: an immutable operator tree. Knows no SQL text, no Spark and no catalog."""
