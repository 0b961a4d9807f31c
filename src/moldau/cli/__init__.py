"""The command line: one module for each noun, each with `add_parser`; heavy imports wait for the command."""
