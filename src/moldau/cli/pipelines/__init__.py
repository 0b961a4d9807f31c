"""`moldau pipeline` and `moldau demo`.

demo: `moldau demo`
pipeline: `moldau pipeline`: run, check, test and preview
pipeline_files: arguments and exit codes of the verbs of `moldau pipeline`
runs: `moldau pipeline` init, graph, status, stop and reset
served: one pipeline of `moldau pipeline serve`, as a process that ends with its parent
warm_up: `moldau pipeline warm-up`
"""
