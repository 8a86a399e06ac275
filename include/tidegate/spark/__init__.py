"""What runs inside a Spark application. It needs only PySpark, the core and the errors."""
