"""Errors of records: tries again, tolerance, logs and dead letters, as in Kafka Connect (KIP-298).

dead_letters: a record that could not be handled, as one to produce, with the headers that say why
handling: runs one stage for one record, and says whether it passed, is skipped, or fails the task
stages: the stages of a record, and the settings of errors
"""
