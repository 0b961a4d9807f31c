"""Records from and to the command line.

consume: `moldau consume`
formats: keys and values by Kafka's serializers, as text and as JSON
input_lines: lines of standard input; a signal loses no line
last_records: the last records of a topic over all partitions
produce: `moldau produce`
text: records as JSON lines and templates
"""
