# SPDX-License-Identifier: Apache-2.0
"""A daemon that gives divvy the answers of a test."""

import json
import os
import socket
import struct
import threading

REPLY = 14
ABI = 2
HEAD = struct.Struct("<IHHIiII")


class Fake:
    """Answers each request with the packets that `reply(number of the request, request)`
    returns."""

    def __init__(self, rig, reply):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(os.path.join(rig.dir, "divvyd.sock"))
        self.listener.listen(8)
        self.reply = reply
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()

    def serve(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with peer:
                while packet := peer.recv(65536):
                    head = HEAD.unpack_from(packet)
                    for out in self.reply(head[3], json.loads(packet[HEAD.size :])):
                        peer.send(out)
                    if not out:
                        break


def part(request, text, more=0, kind=REPLY, abi=ABI):
    data = text.encode()
    return HEAD.pack(HEAD.size + len(data), kind, abi, request, 0, more, 0) + data
