"""Kafka's own command-line tools, as `moldau kafka-topics ...`: their flags, their columns, their exit codes.

They are plain Kafka clients and run the same against Apache Kafka and Moldau. One module for each tool, with

    OPTIONS: tuple[Option, ...]          the flags, as Kafka 4.4.0 names them
    SUMMARY: str                         the first line of --help
    run(arguments: Arguments) -> int     the exit code

`TOOLS` names the modules; `run_tool` reads the flags as jopt-simple does (`options.py`) and calls `run`.
"""
