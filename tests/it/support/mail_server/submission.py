"""A submission server, by STARTTLS and by TLS from the start, whose next answers can be chosen; a judge of tokens."""

import asyncio
import json
import ssl
import threading
import urllib.parse
import urllib.request
from base64 import b64decode

from aiosmtpd.smtp import MISSING, SMTP, AuthResult

# Their passwords by their addresses, and what puts a message into a folder of theirs.
users = {}
deliver = None
# What the next ones come to: (where, what).
faults = []
submitted = []
# Whose each token is, where nobody else is asked for that.
tokens = {}
judge_url = None
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)


def owner(address):
    """Whose INBOX it is: `household+a@example.org` is the household's."""
    local, _, domain = address.rpartition("@")
    return f"{local.partition('+')[0]}@{domain}".lower()


class Submission(SMTP):
    # What every AUTH on this connection is answered: clients try one way after the other.
    unknown = None

    async def push(self, status):
        await super().push(status)
        # Who says 421 closes.
        if self.transport is not None and status[:3] in ("421", b"421"):
            self.transport.close()

    async def fault(self, at):
        """The answer that was asked for here, if any."""
        found = next((fault for fault in faults if fault[0] == at), None)
        if found is None:
            return None
        faults.remove(found)
        what = found[1]
        if what == "drop":
            self.transport.abort()
        if what in ("drop", "hang"):
            # Ends when the connection does.
            await asyncio.Event().wait()
        return f"{what} {what // 100}.3.0 As the test asked"

    async def _handle_client(self):
        said = await self.fault("greeting")
        if said is None:
            return await super()._handle_client()
        await self.push(said)
        self.transport.close()

    async def smtp_AUTH(self, arg):
        self.unknown = self.unknown or await self.fault("auth")
        await (super().smtp_AUTH(arg) if self.unknown is None else self.push(self.unknown))

    async def smtp_MAIL(self, arg):
        said = await self.fault("mail")
        await (super().smtp_MAIL(arg) if said is None else self.push(said))

    async def smtp_RCPT(self, arg):
        said = await self.fault("recipient")
        await (super().smtp_RCPT(arg) if said is None else self.push(said))

    async def smtp_DATA(self, arg):
        said = await self.fault("data")
        await (super().smtp_DATA(arg) if said is None else self.push(said))

    # `user=ada@example.org^Aauth=Bearer x^A^A` says the one, `n,a=ada@example.org,^Aauth=Bearer x^A^A` the other.
    async def auth_XOAUTH2(self, _, args):
        return await self.bearer(args, lambda fields: fields[0].removeprefix("user="))

    async def auth_OAUTHBEARER(self, _, args):
        return await self.bearer(args, lambda fields: fields[0].split(",")[1].removeprefix("a="))

    async def bearer(self, args, user_in):
        said = b64decode(args[1]) if len(args) > 1 else await self.challenge_auth("")
        if said is MISSING:
            return AuthResult(success=False, handled=True)
        fields = said.decode().split("\1")
        user = user_in(fields)
        token = next((field[12:] for field in fields if field.startswith("auth=Bearer ")), None)
        if token and await asyncio.to_thread(whose, token) == user:
            return AuthResult(success=True, auth_data=user)
        # Tells why, and refuses once the client has taken note.
        await self.challenge_auth(json.dumps({"status": "401", "schemes": "bearer", "scope": "mail"}))
        return AuthResult(success=False, handled=False)


class Handler:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.lower().endswith("@example.org") and owner(address) not in users:
            return "550 5.1.1 There is no such user"
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 2.1.5 Ok"

    async def handle_DATA(self, server, session, envelope):
        said = await server.fault("message")
        if said is not None:
            return said
        raw = envelope.original_content
        accepted = {"user": session.auth_data, "from": envelope.mail_from, "to": envelope.rcpt_tos}
        submitted.append({**accepted, "raw": raw.decode("latin-1")})
        for address in envelope.rcpt_tos:
            if owner(address) in users:
                head = f"Return-Path: <{envelope.mail_from}>\r\nDelivered-To: {address}\r\n"
                deliver(owner(address), "INBOX", head.encode() + raw)
        return await server.fault("accepted") or "250 2.0.0 Ok: queued"


def authenticate(server, session, envelope, mechanism, data):
    user, password = data.login.decode(), data.password.decode()
    return AuthResult(success=user in users and users[user] == password, handled=False, auth_data=user)


def whose(token):
    if judge_url is None:
        return tokens.get(token)
    form = urllib.parse.urlencode({"token": token}).encode()
    with urllib.request.urlopen(judge_url, form, timeout=10) as answer:
        said = json.load(answer)
    return said.get("username") if said.get("active") else None


async def judge(reader, writer):
    """Says whose a token is, as RFC 7662 has it."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = next(int(line.split(":")[1]) for line in head.splitlines() if line.startswith("content-length:"))
    form = urllib.parse.parse_qs((await reader.readexactly(length)).decode())
    user = tokens.get(form.get("token", [""])[0])
    body = json.dumps({"active": True, "username": user} if user else {"active": False})
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close"
    writer.write(f"{head}\r\n\r\n{body}".encode())
    await writer.drain()
    writer.close()


async def serve(tokens_port, ready):
    with_tokens = tokens_port != "none"
    options = {
        "hostname": "localhost",
        "authenticator": authenticate,
        "auth_required": True,
        "auth_exclude_mechanism": [] if with_tokens else ["XOAUTH2", "OAUTHBEARER"],
        "enable_SMTPUTF8": True,
    }
    loop = asyncio.get_running_loop()
    starttls = lambda: Submission(Handler(), tls_context=context, require_starttls=True, **options)
    # It takes a connection that is TLS from the start for a plain one.
    wrapped = lambda: Submission(Handler(), auth_require_tls=False, **options)
    ports = []
    for factory, tls in ((starttls, None), (wrapped, context)):
        server = await loop.create_server(factory, "127.0.0.1", 0, ssl=tls)
        ports.append(server.sockets[0].getsockname()[1])
        await loop.create_server(factory, "127.0.0.2", ports[-1], ssl=tls)
    if with_tokens and judge_url is None:
        await asyncio.start_server(judge, "127.0.0.1", int(tokens_port))
    ready(ports)
    await asyncio.Event().wait()


def start(tokens_port):
    """In a thread of its own. The ports of both servers."""
    global judge_url
    judge_url = tokens_port if tokens_port.startswith("http") else None
    ports = []
    there = threading.Event()

    def ready(found):
        ports.extend(found)
        there.set()

    threading.Thread(target=lambda: asyncio.run(serve(tokens_port, ready)), daemon=True).start()
    assert there.wait(30), "the submission server does not start"
    return ports
