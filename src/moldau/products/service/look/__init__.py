"""HTML and SVG of services.

charts: small charts
history: samples and rates
pages: templates and static files
plan: steps and edges as a picture
words: numbers and foreign text in readable form
"""
