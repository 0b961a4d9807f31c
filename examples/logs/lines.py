"""Three hours of a web server's log. From 13:40 to 13:50 a third of the requests fail. Any log in the same format works
too: `moldau produce access-log < /var/log/nginx/access.log`."""

from datetime import datetime, timedelta
from random import Random

draw = Random(17)
at = datetime(2026, 1, 5, 12)
while at.hour < 15:
    at += timedelta(seconds=draw.expovariate(0.8))
    is_bad = at.hour == 13 and 40 <= at.minute < 50 and draw.random() < 0.33
    status = draw.choice([500, 502, 503]) if is_bad else draw.choices([200, 304, 404, 500], [90, 6, 3.7, 0.3])[0]
    path = draw.choice(["/", "/search?q=river", "/item/17", "/cart", "/pay"])
    client = f"192.0.2.{draw.randint(1, 200)}"
    print(f'{client} - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "GET {path} HTTP/1.1" {status} {draw.randint(200, 9_000)}')
