"""At most once: commit the offsets, then work. What is not done at a kill is never done."""

from shared import after, batches, group_member, work

consumer = group_member()
for batch in batches(consumer):
    consumer.commit(offsets=after(batch), asynchronous=False)
    for message in batch:
        work(message)
    print(len(batch), flush=True)
consumer.close()
