"""What runs inside a Spark application; it needs only PySpark, the core and the errors."""
