"""Events of the audit log. The queue is in `shell/network`, the file in `shell/node`.

changes: the changes of an administrator's request, one event for each thing
lines: an event as a line of JSON
repeated: how often denials of one client are written
"""
