"""What a node writes down for auditors: refusals, and changes that administrators made.

`lines.py`: an event as a line of JSON; `changes.py`: what a request changed, from it and its answer; `repeated.py`: how
often a refusal may be written."""
