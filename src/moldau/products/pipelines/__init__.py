"""Pipelines on Spark. The rooms, each of which imports only those before it: `core` (plans and refusals), `checkpoints`
(what lies on disk between two runs), `formats` (records as columns), `databases` (what sources and targets share),
`sources` and `targets` (a module for each kind), `page` (the file that a pipeline is written in), `running` (its
queries in Spark), `looking` (what is told of it without a run: its tests too)."""
