"""Total order: a topic of one partition keeps the order of all records; one of three keeps that of each key."""

from shared import KEYS, read, save, write

COUNT = 60
for topic in ("one-partition", "three-partitions"):
    write(topic, COUNT)
    numbers = list(read(topic, "readers", COUNT))
    by_key = [[number for number in numbers if number % KEYS == key] for key in range(KEYS)]
    of_keys = all(of_key == sorted(of_key) for of_key in by_key)
    print(f"{topic}: all in order: {numbers == sorted(numbers)}, each key in order: {of_keys}")
    save(topic, numbers)
