"""What a Kafka cluster is and has: the only package that imports kafka."""
