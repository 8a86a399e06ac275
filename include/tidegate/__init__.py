"""Move planned, bounded amounts of data between Kafka and a Parquet lake, provably once."""

__version__ = "0.2.0"
