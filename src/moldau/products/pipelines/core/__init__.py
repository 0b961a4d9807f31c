"""What a page may say and what it plans: values and decisions, without Spark, files or sockets."""
