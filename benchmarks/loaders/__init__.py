"""What drives a broker: each loader runs one workload against one peer and gives the figures that it saw."""
