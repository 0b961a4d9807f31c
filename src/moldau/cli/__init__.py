"""The command line. One module for each noun; a flag belongs to its command's module.

access: which cluster a command reaches: `-b`, `--profile`, `--command-config`, environment
administration/: commands of administrators: topics, groups, brokers, quorum, ACLs
arguments: parsers of flag values: numbers, times, durations, files
cluster: options and clients that commands of a cluster share
commands: the tree of commands and its help
completion: `moldau completion`
connect/: `moldau connect`
diagnosis/: `moldau doctor`, and why a client is not served
dump/: readers of the files of a log directory
kafka/: Kafka's own tools, `moldau kafka-*`
main: runs a command, and prints a user's error as one sentence
nodes/: commands that run a node or work on its files
output: tables, JSON and error sentences
parser: the parser of all commands, with hints and examples
pipelines/: `moldau pipeline` and `moldau demo`
records/: `moldau produce` and `moldau consume`
reference: writes docs/reference/command-line.md
services/: the web console, the registry, and parts common to HTTP services
sql/: `moldau sql`
"""
