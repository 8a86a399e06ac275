"""Settings of Kafka's clients and of Spark that a user may know, and Tidegate's answer to each."""
