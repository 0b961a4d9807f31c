"""The line between device and centre: a TCP relay. `python line.py PORT TARGET_PORT`. A stopped one is a dead line."""

import asyncio
import sys


async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()


async def relay(reader, writer):
    try:
        target = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    except OSError:
        writer.close()
        return
    await asyncio.gather(pump(reader, target[1]), pump(target[0], writer))


async def main():
    server = await asyncio.start_server(relay, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


asyncio.run(main())
