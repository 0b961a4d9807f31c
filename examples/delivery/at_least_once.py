"""At least once: work, then commit the offsets. What is done but not committed at a kill is done again."""

from shared import after, batches, group_member, work

consumer = group_member()
for batch in batches(consumer):
    for message in batch:
        work(message)
    consumer.commit(offsets=after(batch), asynchronous=False)
    print(len(batch), flush=True)
consumer.close()
