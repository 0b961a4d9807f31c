"""`moldau demo`: from the metrics of this machine through Spark and back, counted.

broker: the demo's broker, a child process
chart: the picture of a run
display: the live table
feed: records at a steady pace
job: the demo from start to verdict
metrics: metrics of this machine
planted: keys with known anomalies
queries: windowed statistics and anomalies on Spark
rolling: anomalies by rolling mean and deviation
verify: counts the records sent, stored and unread
"""
