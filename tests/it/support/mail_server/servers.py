"""Dovecot, and a submission server whose mail arrives there. Does what comes in by lines of JSON, answers each by one.

usage: servers.py DIR IMAP_PORT IMAPS_PORT TOKENS_PORT|JUDGE_URL|none UID GID; mail_server.rs has filled DIR. Dovecot runs as the
user with UID. When the input ends, all of it does.
"""

import glob
import imaplib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import traceback

DIR, IMAP, IMAPS, TOKENS = sys.argv[1:5]
UID, GID = map(int, sys.argv[5:])
with open(f"{DIR}/users") as file:
    USERS = dict(line.strip().split(":{PLAIN}") for line in file)
lock = threading.Lock()


# ---- the mailboxes

newest = 0


def give(path):
    if os.geteuid() == 0:
        os.chown(path, UID, GID)


def make(path):
    if not os.path.isdir(path):
        make(os.path.dirname(path))
        os.mkdir(path)
        give(path)


def deliver(user, folder, raw, readable=True):
    """As an MDA does: written whole below tmp/, then renamed. So it arrives while Dovecot is dead or silent, too."""
    global newest
    assert user in USERS and folder.isascii(), (user, folder)
    box = f"{DIR}/mail/{user}" + ("" if folder == "INBOX" else "/." + folder.replace("/", "."))
    for part in ("tmp", "new", "cur"):
        make(f"{box}/{part}")
    with lock:
        # Dovecot counts in the order of these numbers.
        newest = max(time.time_ns() // 1000, newest + 1)
        name = f"{newest // 1000000}.M{newest % 1000000:06}P{os.getpid()}.test"
        with open(f"{box}/tmp/{name}", "wb") as file:
            file.write(raw)
        give(f"{box}/tmp/{name}")
        if not readable:
            os.chmod(f"{box}/tmp/{name}", 0)
        os.rename(f"{box}/tmp/{name}", f"{box}/new/{name}")


class Look(imaplib.IMAP4_SSL):
    """Not the client that is tested: comes from another address."""

    def _create_socket(self, timeout):
        sock = socket.create_connection(("127.0.0.1", int(IMAPS)), 10, source_address=("127.0.0.2", 0))
        context = ssl._create_unverified_context()
        return context.wrap_socket(sock)

    def __init__(self, user):
        super().__init__("127.0.0.1", int(IMAPS))
        self.login(user, USERS[user])


def look(user, folder):
    """Flags and bytes of a folder's messages by UID, without a trace on them."""
    imap = Look(user)
    try:
        found = []
        if imap.select(f'"{folder}"', readonly=True)[0] == "OK":
            for part in imap.uid("fetch", "1:*", "(FLAGS BODY.PEEK[])")[1]:
                if isinstance(part, tuple):
                    flags = re.search(rb"FLAGS \(([^)]*)\)", part[0]).group(1).decode().split()
                    found.append({"flags": flags, "raw": part[1].decode("latin-1")})
        return found
    finally:
        imap.logout()


def uidvalidity(user):
    imap = Look(user)
    try:
        told = imap.status("INBOX", "(UIDVALIDITY)")[1][0]
        return int(re.search(rb"UIDVALIDITY (\d+)", told).group(1))
    finally:
        imap.logout()


# ---- Dovecot

dovecot = None


def start():
    global dovecot
    assert dovecot is None, "Dovecot runs"
    # The number in it may be another's by now.
    if os.path.exists(f"{DIR}/run/master.pid"):
        os.remove(f"{DIR}/run/master.pid")
    with open(f"{DIR}/dovecot.log", "ab") as log:
        # A session of its own is a process group of its own.
        options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "start_new_session": True}
        if os.geteuid() == 0:
            options.update({"user": UID, "group": GID, "extra_groups": []})
        dovecot = subprocess.Popen(["dovecot", "-F", "-c", f"{DIR}/dovecot.conf"], **options)


def greeted():
    for _ in range(3000):
        if dovecot.poll() is not None:
            with open(f"{DIR}/dovecot.log") as log:
                raise AssertionError(f"Dovecot ended with {dovecot.returncode}:\n{log.read()[-2000:]}")
        try:
            with socket.create_connection(("127.0.0.1", int(IMAP)), 10, source_address=("127.0.0.2", 0)) as sock:
                if sock.recv(4) == b"* OK":
                    return
        except OSError:
            pass
        time.sleep(0.01)
    raise AssertionError("Dovecot does not greet")


def kill():
    """All of it at once, as a power cut does."""
    global dovecot
    if dovecot is not None:
        os.killpg(dovecot.pid, signal.SIGKILL)
        dovecot.wait()
        # The others have the ports for as long as they die.
        while lives(dovecot.pid):
            time.sleep(0.001)
        dovecot = None


def lives(group):
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                state, _, of = file.read().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(of) == group and state not in "ZX":
            return True
    return False


def start_again():
    start()
    greeted()


def change_uidvalidity(user):
    before = uidvalidity(user)
    kill()
    for name in os.listdir(f"{DIR}/mail/{user}"):
        if name.startswith(("dovecot-uidlist", "dovecot.index")):
            os.remove(f"{DIR}/mail/{user}/{name}")
    start_again()
    after = uidvalidity(user)
    assert before != after, f"UIDVALIDITY is still {after}"
    return [before, after]


# ---- what is asked


def answer(ask):
    do = ask["do"]
    if do == "deliver":
        return deliver(ask["user"], ask["folder"], ask["raw"].encode("latin-1"), ask.get("readable", True))
    if do == "look":
        return look(ask["user"], ask["folder"])
    if do == "submitted":
        return submission.submitted
    if do == "fault":
        return submission.faults.append((ask["at"], ask["what"]))
    if do == "grant":
        return submission.tokens.update({ask["token"]: ask["user"]})
    if do == "revoke":
        return submission.tokens.pop(ask["token"], None)
    if do == "kill":
        return kill()
    if do == "start":
        return start_again()
    if do == "signal":
        return os.killpg(dovecot.pid, getattr(signal, ask["signal"]))
    if do == "change_uidvalidity":
        return change_uidvalidity(ask["user"])
    if do == "renew":
        certified()
        kill()
        return start_again()
    raise AssertionError(f"no {do}")


def certified():
    submission.context.load_cert_chain(f"{DIR}/server.pem", f"{DIR}/server.key")


def say(said):
    print(json.dumps(said), flush=True)


try:
    for user in USERS:
        make(f"{DIR}/mail/{user}")
    # It starts while the other is read.
    start()
    try:
        import submission
    except ImportError as error:
        say({"missing": str(error)})
        raise
    submission.users, submission.deliver = USERS, deliver
    certified()
    ports = submission.start(TOKENS)
    greeted()
    say({"ok": ports})
    for line in sys.stdin:
        try:
            said = {"ok": answer(json.loads(line))}
        except Exception:
            said = {"error": traceback.format_exc()}
        say(said)
except Exception:
    traceback.print_exc()
finally:
    kill()
    # Whatever else runs in here.
    os._exit(0)
