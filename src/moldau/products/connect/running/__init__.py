"""The tasks that a worker runs, each a process of its own.

memory: of a task
plugins: asks a process about connectors, so that the worker never imports their code
process: one task: its process, its lines
programs: which program runs a task
references: secrets of configurations
supervision: starts, pauses and stops tasks as the state of the cluster says
"""
