#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Forwards connections to the API server, the only service that pods must reach without a kube-proxy.
usage: forward.py ADDRESS PORT TO-ADDRESS TO-PORT"""
import asyncio
import contextlib
import sys

PIECE = 1 << 16


async def copy(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(PIECE):
            writer.write(data)
            await writer.drain()
    writer.close()


async def main(address, port, to_address, to_port):
    async def serve(reader, writer):
        try:
            there_reader, there_writer = await asyncio.open_connection(to_address, int(to_port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, there_writer), copy(there_reader, writer))

    server = await asyncio.start_server(serve, address, int(port))
    async with server:
        await server.serve_forever()


asyncio.run(main(*sys.argv[1:]))
