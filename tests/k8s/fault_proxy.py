# SPDX-License-Identifier: Apache-2.0
"""Proxies that disturb, by a seed, the connection between a client and the real API server. FaultProxy ends TLS with a
certificate of its own and speaks HTTP/1.1. It does to an answer what a network, a middlebox or a restarting server does: it
cuts the answer, ends it early but in good order, corrupts it, delays it, goes silent, or sends another answer. CutProxy passes
bytes on without looking into them (HTTP/2 goes through), cuts connections and goes silent. GateProxy, on request, stops
requests and lets answers pass. VersionProxy only changes the server's version.
    with FaultProxy(cluster, folder, seed=1) as proxy:
        proxy.kubeconfig       # trusts the proxy, is the cluster's administrator
        proxy.level = 0        # from now on the proxy disturbs nothing"""

import asyncio
import os
import random
import re
import socket
import ssl
import threading
import urllib.parse

from api import write_kubeconfig
from pki import Pki

GARBAGE = [b"\x00\x01\x02", b"\xff\xfe\xfd", b"}}}]\x07", b"<html>\x1b</html>", b'\n\x0b{"type":']
STATUSES = {410: "Expired", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}


class Proxy:
    """The loop and its thread."""

    def __init__(self, cluster, folder, seed):
        self.cluster, self.folder, self.random = cluster, folder, random.Random(seed)
        self.level = 1.0  # factor of the probability of faults
        self.done = {}  # fault: how often
        self.tasks = set()
        self.loop = asyncio.new_event_loop()
        self.upstream = urllib.parse.urlsplit(cluster.server)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.run)

    def run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.listen())
        self.loop.run_forever()

    async def listen(self):
        self.server = await asyncio.start_server(self.accept, sock=self.socket, ssl=self.server_tls())

    def __enter__(self):
        os.makedirs(self.folder, exist_ok=True)
        self.prepare()
        self.thread.start()
        return self

    def __exit__(self, *_):
        async def end():
            self.server.close()
            for task in list(self.tasks):
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)
            self.loop.stop()

        asyncio.run_coroutine_threadsafe(end(), self.loop)
        self.thread.join()
        self.loop.close()

    async def accept(self, reader, writer):
        task = asyncio.current_task()
        self.tasks.add(task)
        try:
            await self.serve(reader, writer)
        except (OSError, EOFError, ssl.SSLError, asyncio.CancelledError):
            pass
        finally:
            self.tasks.discard(task)
            writer.transport.abort()

    def pick(self, kinds, chance):
        """A random fault, or None."""
        if self.random.random() >= self.level * chance:
            return None
        kind = self.random.choice(kinds)
        self.done[kind] = self.done.get(kind, 0) + 1
        return kind

    def client_tls(self):
        return ssl.create_default_context(cafile=self.cluster.ca)


class FaultProxy(Proxy):
    def prepare(self):
        pki = Pki(os.path.join(self.folder, "pki"))
        self.cert = pki.sign("proxy", "proxy", alternatives="IP:127.0.0.1")
        self.kubeconfig = os.path.join(self.folder, "kubeconfig")
        write_kubeconfig(self.kubeconfig, f"https://127.0.0.1:{self.port}", ca=pki.ca, token=self.cluster.token)

    def server_tls(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.cert)
        return context

    async def serve(self, reader, writer):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            size = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
            if size:
                head += await reader.readexactly(int(size[1]))
            if not await self.answer(head, writer):
                return

    async def answer(self, head, writer):
        """Handles one request, with its body; true when the connection may serve another."""
        is_watch = b"watch=1" in head.split(b"\r\n")[0]
        is_page = b"continue=" in head.split(b"\r\n")[0]
        kinds = ["status", "cut", "cut", "end", "garbage", "delay", "silence"] + ["expired"] * (is_watch or is_page)
        kind = self.pick(kinds, 0.9 if is_watch else 0.15)
        if kind == "delay":
            await asyncio.sleep(self.random.random())
        if kind in ("status", "expired"):
            return await self.refuse(writer, 410 if kind == "expired" else self.random.choice([429, 500, 503]))
        up_reader, up_writer = await asyncio.open_connection(
            self.upstream.hostname, self.upstream.port, ssl=self.client_tls(), limit=1 << 20
        )
        try:
            up_writer.write(head)
            answer_head = await up_reader.readuntil(b"\r\n\r\n")
            return await self.pass_on(answer_head, up_reader, writer, kind, is_watch)
        finally:
            up_writer.transport.abort()

    async def refuse(self, writer, code):
        body = (
            f'{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"by the proxy",'
            f'"reason":"{STATUSES[code]}","code":{code}}}'
        ).encode()
        wait = "Retry-After: 1\r\n" if code == 429 else ""
        writer.write(
            f"HTTP/1.1 {code} Fault\r\nContent-Type: application/json\r\n{wait}"
            f"Content-Length: {len(body)}\r\n\r\n".encode() + body
        )
        await writer.drain()
        return True

    async def body(self, head, reader):
        """Yields the pieces of the body, without their framing."""
        lower = head.lower()
        if b"transfer-encoding: chunked" in lower:
            while True:
                size = int((await reader.readline()).split(b";")[0], 16)
                piece = await reader.readexactly(size + 2)
                if not size:
                    return
                yield piece[:-2]
        for line in lower.split(b"\r\n"):
            if line.startswith(b"content-length:"):
                yield await reader.readexactly(int(line.split(b":")[1]))

    async def pass_on(self, head, reader, writer, kind, is_watch):
        lines = [
            l for l in head.split(b"\r\n")[:-2] if not l.lower().startswith((b"content-length:", b"transfer-encoding:"))
        ]
        writer.write(b"\r\n".join(lines) + b"\r\nTransfer-Encoding: chunked\r\n\r\n")
        left = self.random.randrange(8000 if is_watch else 50000)
        async for piece in self.body(head, reader):
            if kind in ("cut", "end", "garbage", "silence") and self.level:
                if len(piece) > left:
                    at = self.random.randrange(len(piece))
                    writer.write(self.chunk(piece[:at]))
                    if kind == "cut":
                        await writer.drain()
                        return False
                    if kind == "end":
                        writer.write(b"0\r\n\r\n")
                        await writer.drain()
                        return False
                    if kind == "silence":
                        await asyncio.sleep(600)
                    piece = self.random.choice(GARBAGE) + piece[at:]
                    kind = None
                left -= len(piece)
            writer.write(self.chunk(piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    @staticmethod
    def chunk(piece):
        return b"%x\r\n%s\r\n" % (len(piece), piece) if piece else b""


class VersionProxy(FaultProxy):
    """Disturbs nothing, and tells the client another minor version of Kubernetes."""

    def prepare(self):
        super().prepare()
        self.level = 0
        self.minor = None

    async def answer(self, head, writer):
        if not head.startswith(b"GET /version "):
            return await super().answer(head, writer)
        body = f'{{"major":"1","minor":"{self.minor}"}}'.encode()
        writer.write(
            f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        )
        await writer.drain()
        return True


class CutProxy(Proxy):
    def prepare(self):
        self.kubeconfig = os.path.join(self.folder, "kubeconfig")
        write_kubeconfig(
            self.kubeconfig, f"https://127.0.0.1:{self.port}", ca=self.cluster.ca, token=self.cluster.token
        )
        # The certificate is the server's own, which does not name the proxy's address.
        with open(self.kubeconfig, encoding="utf-8") as f:
            text = f.read()
        with open(self.kubeconfig, "w", encoding="utf-8") as f:
            f.write(text.replace('"server":', '"tls-server-name": "kubernetes.default", "server":', 1))

    def server_tls(self):
        return None

    @staticmethod
    async def both(up_writer, *ways):
        """Runs until one direction ends; then ends the connection to the server."""
        pumps = [asyncio.ensure_future(way) for way in ways]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in pumps:
                task.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            up_writer.transport.abort()

    async def serve(self, reader, writer):
        up_reader, up_writer = await asyncio.open_connection(self.upstream.hostname, self.upstream.port)
        kind = self.pick(["cut", "cut", "cut", "silence"], 1)
        is_slow = self.random.random() < self.level * 0.3
        left = self.random.randrange(500000)

        async def pump(source, sink, counts):
            nonlocal left
            while piece := await source.read(1 << 14):
                if is_slow and self.level:
                    await asyncio.sleep(self.random.random() / 20)
                if counts:
                    left -= len(piece)
                if left < 0 and kind in ("cut", "silence") and self.level:
                    if kind == "silence":
                        await asyncio.sleep(600)
                    return
                sink.write(piece)
                await sink.drain()

        await self.both(up_writer, pump(reader, up_writer, False), pump(up_reader, writer, True))


class GateProxy(CutProxy):
    """Passes everything on until it is shut. Then it cuts a connection on which the client sends a request, and keeps new
    connections waiting until it opens again. Data of the server still comes through, as on a watch, and so do frames that keep
    a watch alive: a PING or a WINDOW_UPDATE of HTTP/2 (RFC 9113 6.7, 6.9) is a few bytes long, a write is hundreds."""

    ASKS_BYTES = 128

    def prepare(self):
        super().prepare()
        self.is_shut = False
        self.n_held = 0

    async def serve(self, reader, writer):
        self.n_held += self.is_shut
        while self.is_shut:
            await asyncio.sleep(0.05)
        up_reader, up_writer = await asyncio.open_connection(self.upstream.hostname, self.upstream.port)

        async def pump(source, sink, is_gated):
            while piece := await source.read(1 << 14):
                if is_gated and self.is_shut and len(piece) > self.ASKS_BYTES:
                    return
                sink.write(piece)
                await sink.drain()

        await self.both(up_writer, pump(reader, up_writer, True), pump(up_reader, writer, False))
