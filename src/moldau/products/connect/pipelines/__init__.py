"""`connector.class: pipeline`: a connector whose one task runs a pipeline file on Spark.

`python -m moldau.products.connect.pipelines` speaks the lines of `moldau.connect.running`. It differs in these points:

- RUNNING comes when the queries have started. PAUSED ends them after their batches and gives their leases back, and
  keeps the Spark session.
- FAILED may come from a process that goes on: while another process has the lease of a checkpoint, and while a query
  of several has been given up, which is tried again beside the others. RUNNING follows when that is over.
- `bytes` of the progress is 0. `offset` is that of the newest finished batches.

The lease of the pipeline (`moldau.products.pipelines.checkpoints.lease`) keeps a second process from running it on the
same checkpoint. A transactional target topic also fences by its transactional id.

__main__: the process of the task
answering: answers to questions about the class
configuration: the settings, and the pipeline that they name
questions: the process of one question about plugins, pipelines included
task: runs the pipeline between the commands of the worker
"""
