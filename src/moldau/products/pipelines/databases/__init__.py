"""What sources and targets share that are tables of databases."""
