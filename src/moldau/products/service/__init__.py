"""Shared by the HTTP services: the web console, the registry and the pipeline board.

admission: admits requests to a service
logins/: people and machines that log in
look/: pages, charts and plans in HTML and SVG
people: persons and machines with a role
routes: routes, each with its least role
scrubbed: overwrites received bytes after use
service: application, streams, metrics and stop
serving: a service on a socket
"""
