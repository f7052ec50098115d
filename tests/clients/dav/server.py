"""Radicale on a free port of this machine, with the users ada and bob, until its input ends. Prints the port.

As root it becomes `nobody` before it listens. What it stores goes when it ends.
"""
# Otherwise loaded when they are first needed.
import encodings.base64_codec
import encodings.idna
import encodings.quopri_codec
import os
import pwd
import socket
import tempfile
import threading

import dateutil.parser
from radicale import config, server


def drop(place):
    """What root's Python imports may be closed to `nobody`, so all of it is there before."""
    if os.getuid() == 0:
        nobody = pwd.getpwnam("nobody")
        for path in [place, *(os.path.join(at, name) for at, dirs, files in os.walk(place) for name in dirs + files)]:
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)


class Announced(server.ParallelHTTPServer):
    """Listens on whatever port is free, which settings can't say, and tells it."""

    place = ""

    def __init__(self, configuration, family, address, handler):
        super().__init__(configuration, family, (address[0], 0), handler)

    def server_activate(self):
        super().server_activate()
        drop(Announced.place)
        print(self.server_address[1], flush=True)


server.ParallelHTTPServer = Announced

CONFIG = """
[server]
hosts = 127.0.0.1:1
max_connections = 100
[auth]
type = htpasswd
htpasswd_filename = {0}/users
htpasswd_encryption = plain
delay = 0
[rights]
type = owner_only
[storage]
type = multifilesystem
filesystem_folder = {0}/collections
[logging]
level = warning
"""


def main():
    with tempfile.TemporaryDirectory(prefix="radicale-") as place:
        with open(f"{place}/users", "w") as users:
            users.write("ada:secret1\nbob:secret2\n")
        with open(f"{place}/config", "w") as file:
            file.write(CONFIG.format(place))
        settings = config.load([(f"{place}/config", False)])
        settings.update({"storage": {"_filesystem_fsync": "False"}}, "server.py", privileged=True)
        Announced.place = place
        here, there = socket.socketpair()

        def until_input_ends():
            while os.read(0, 1024):
                pass
            there.close()

        threading.Thread(target=until_input_ends, daemon=True).start()
        server.serve(settings, here)


main()
