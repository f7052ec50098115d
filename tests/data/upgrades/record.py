#!/usr/bin/env python3
"""Records a household of one released program, as a state from which later programs must upgrade.

    record.py PROGRAM NAME        (or `just upgrade-state PROGRAM NAME`)

Run it in a clone of the state that PROGRAM was built of: it takes the roster from there. It needs PostgreSQL's pg_dump, and
makes a household, has PROGRAM serve it, fills what a household fills, and leaves some of it under way: a call that waits for
the owner, a reminder, a delivery whose receiver is away, and two messages whose sessions a kill cuts off. Then it writes, into
tests/data/upgrades/NAME/:

    household.sql.xz   roles and database as the kill left them; a backup would have both made anew on its way back
    master.key         the key of their passwords and secrets; it has never guarded anything else
    state.json         what tests/it/upgrades_recorded.rs does with it:
        program, at, zone      who wrote it, when, and where its owner lives
        roster                 lines that each butler's butler.toml has besides the shipped ones
        model                  what the scripted model says to what is still to be done (as `testkit` reads it)
        shown                  commands, and the words that they print
        steps                  commands that the owner gives then
        later                  minutes that pass, and the commands and words that hold at last

The words of `shown` are looked for here as well, so that a state says nothing that its own program does not.
"""

import base64
import hashlib
import hmac
import http.server
import json
import lzma
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime, timezone

HERE = pathlib.Path(__file__).resolve().parent
ROSTER = HERE.parents[2] / "roster"
# Whoever plays the state later puts addresses of its own in their place. At neither does anybody listen here.
MODEL_URL = "http://model.invalid"
HOOK_URL = "http://127.0.0.1:9/hook"

# In the JSON of a delivery.
SENT = '"state": "sent"'
# A picture, as small as can be.
PIXEL = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")

LINES = {
    "general": """
[modules.approvals.gated_tools.collection_create]
risk_tier = "low"
""",
    "messenger": f"""
[modules.file]

[modules.webhook.endpoints.lodge]
url = "{HOOK_URL}"
secret = "LODGE_SECRET"
idempotent = true
""",
    "council": f"""
[modules.council]

[[modules.council.members]]
name = "north"
model = "scripted-north"
endpoint = "{MODEL_URL}"

[[modules.council.members]]
name = "south"
model = "scripted-south"
endpoint = "{MODEL_URL}"
""",
}


def call(tool, /, **arguments):
    return {"call": {"tool": tool, "arguments": arguments}}


def say(text):
    return {"say": text}


# What is over before the state is recorded, what is still to be done, and what comes at any time.
ALWAYS = [{"when": "A call of `[a-z_]+` that you had made", "steps": [say("I know.")]}]
BEFORE = [
    {"when": "I weigh 82 kg", "steps": [
        call("measurement_log", kind="weight", value={"kg": 82}), say("Noted: 82 kg.")]},
    {"when": "Keep this sketch of the barn", "steps": [say("It is kept.")]},
    {"when": "Remember how I like lists", "steps": [
        call("note_to_self", note="Ada wants lists short."), say("I will.")]},
    {"when": "Start a collection of recipes", "steps": [
        call("collection_create", name="recipes", description="What Ada cooks"), say("It waits for you.")]},
    {"when": "Start a collection of debts", "steps": [
        call("collection_create", name="debts", description="Who owes what"), say("It waits for you.")]},
    {"when": "Start a collection of books", "steps": [
        call("collection_create", name="books", description="What Ada reads"), say("It waits for you.")]},
    {"when": "Judge the answers in the context", "steps": [say("Both fine.\n\nFINAL RANKING:\n1. Response A")]},
    {"when": "Write the answer out of what is in the context", "steps": [say("Prune the apple trees in February.")]},
    {"when": "When should we prune", "steps": [say("February, before the buds swell.")]},
]
AFTER = [
    {"when": "Order two sacks of oats", "steps": [
        call("state_set", key="oats", value={"sacks": 2}), say("Two sacks of oats are ordered.")]},
    {"when": "(?s)Is the well deep enough.*Route the message in", "steps": [
        call("route_to_butler", butler="general", prompt="Is the well deep enough?")]},
    {"when": "Is the well deep enough", "steps": [say("It is nine metres deep.")]},
]


class Model(http.server.ThreadingHTTPServer):
    """Plays conversations, and never answers what is still to be done."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.hung = set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def turn(self, request):
        """The content blocks of the next turn; `None`: it keeps whoever asks waiting."""
        messages = request.get("messages", [])
        for at in range(len(messages) - 1, -1, -1):
            text = words(messages[at]) if messages[at]["role"] == "user" else ""
            for known in ALWAYS + BEFORE + AFTER:
                if re.search(known["when"], text):
                    if known in AFTER:
                        self.hung.add(known["when"])
                        return None
                    taken = sum(1 for m in messages[at:] if m["role"] == "assistant")
                    return blocks(known["steps"][taken], request, taken) if taken < len(known["steps"]) else []
        return [{"type": "text", "text": "Nothing to add."}]


def words(message):
    content = message["content"]
    parts = [content] if isinstance(content, str) else [b["text"] for b in content if b["type"] == "text"]
    return "\n".join(parts)


def blocks(step, request, turn):
    if "say" in step:
        return [{"type": "text", "text": step["say"]}]
    tool = step["call"]["tool"]
    name = next(t["name"] for t in request["tools"] if t["name"].endswith(tool))
    return [{"type": "tool_use", "id": f"toolu_{turn}", "name": name, "input": step["call"]["arguments"]}]


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        content = self.server.turn(request)
        if content is None:
            threading.Event().wait()
        stop = "tool_use" if any(b["type"] == "tool_use" for b in content) else "end_turn"
        body = json.dumps({
            "id": "msg_1", "type": "message", "role": "assistant", "model": request.get("model"), "content": content,
            "stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 1100, "output_tokens": 20},
        }).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def morning():
    """A zone in which it is between 11 and 12 now: no schedule of the shipped butlers is due soon."""
    return f"Etc/GMT{datetime.now(timezone.utc).hour - 11:+d}"


class Household:
    def __init__(self, program, place, model):
        self.program, self.place, self.served = program, place, None
        self.zone = morning()
        self.env = {
            "PATH": os.environ["PATH"], "HOME": str(place), "TMPDIR": str(place), "BUTLERD_DAEMON__PORTS": "auto",
            "BUTLERD_OWNER__TIME_ZONE": self.zone, "BUTLERD_OWNER__IDENTITIES__TELEGRAM": "4711",
            "BUTLERD_SPAWNER__ENDPOINTS__ANTHROPIC": model.url(), "LODGE_SECRET": "signs-for-nobody",
            # Sessions are told of all tools, and have to look for none.
            "BUTLERD_SPAWNER__TOOL_BUDGET": "0",
        }
        shutil.copytree(ROSTER, place / "roster")
        for hidden in (place / "roster").glob(".*"):
            hidden.rename(hidden.with_name(hidden.name[1:]))
        for butler, lines in LINES.items():
            with open(place / "roster" / butler / "butler.toml", "a", encoding="utf-8") as file:
                file.write(lines.replace(MODEL_URL, model.url()))

    def command(self, args):
        return [str(self.program), *args, "--data-dir", str(self.place / "data"), "--roster", str(self.place / "roster")]

    def run(self, *args, given=""):
        """Runs a command that must succeed, and returns what it printed."""
        done = subprocess.run(
            self.command(args), input=given, env=self.env, cwd=self.place, text=True, capture_output=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(args)}: {done.returncode}\n{done.stdout}{done.stderr}\n{self.log()}")
        return done.stdout

    def json(self, *args, given=""):
        return json.loads(self.run(*args, "--json", given=given))

    def tool(self, butler, tool, /, **arguments):
        answer = self.json("tool", "call", butler, tool, json.dumps(arguments))
        result = answer["result"]
        if answer["is_error"] or isinstance(result, dict) and result.get("status") == "error":
            sys.exit(f"{butler} {tool}: {answer}")
        return result

    def log(self):
        return (self.place / "log").read_text(encoding="utf-8")[-4000:]

    def serve(self):
        with open(self.place / "log", "w", encoding="utf-8") as log:
            self.served = subprocess.Popen(
                self.command(["serve"]), env=self.env, cwd=self.place, stdout=log, stderr=log)
        self.until("the daemon", lambda: f"\"pid\":{self.served.pid}" in self.info().replace(" ", ""))

    def info(self):
        file = self.place / "data/run/daemon.json"
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def stop(self, how):
        self.served.send_signal(how)
        self.served.wait()

    def until(self, what, holds):
        """Waits until this holds, and returns what it came to."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            found = holds()
            if found:
                return found
            if self.served.poll() is not None:
                break
            time.sleep(0.05)
        sys.exit(f"{what}: it did not come to be\n{self.log()}")


def message(number, text, **control):
    return json.dumps({
        "schema_version": "ingest.v1",
        "source": {"channel": "telegram", "provider": "telegram", "endpoint_identity": "bot:home"},
        "event": {"external_event_id": str(number), "external_thread_id": f"chat-{number}",
                  "observed_at": datetime.now(timezone.utc).isoformat()},
        "sender": {"identity": "4711", "authenticated": {"result": "pass", "method": "platform"}},
        "payload": {"raw": {}, "normalized_text": text},
        "control": {"policy_tier": "interactive", **control},
    })


def handed_in(home, number, text, butler):
    """Hands a message in, to this butler or to whom the model chooses; its request's id."""
    pinned = {"pinned_target": butler} if butler else {}
    return home.json("ingest", given=message(number, text, **pinned))["request_id"]


class State:
    """What is written down of it."""

    def __init__(self, home):
        self.home, self.shown, self.steps, self.later = home, [], [], []

    def shows(self, words, *command):
        """The command prints these words, now and after every upgrade."""
        said = self.home.run(*command)
        lost = [word for word in words if word not in said]
        if lost:
            sys.exit(f"{' '.join(command)} does not say {lost}:\n{said}")
        self.shown.append({"command": command, "words": words})

    def will_show(self, words, *command):
        """The command does not print all of these words yet, and will."""
        said = self.home.run(*command)
        if all(word in said for word in words):
            sys.exit(f"{' '.join(command)} says {words} already:\n{said}")
        self.later.append({"command": command, "words": words})


def people_and_keys(home, state):
    home.run("contacts", "add", "Marta Lindqvist", "email", "marta@example.org", "--new-channel")
    for name, value in [("ANTHROPIC_API_KEY", "sk-of-nobody"), ("LODGE_SECRET", "signs-for-nobody")]:
        home.run("secret", "set", name, given=value + "\n")
    home.run("rules", "add", "substring", "weekly newsletter", "skip", "--note", "nobody reads it")
    home.run("token", "new", "--label", "kitchen display", "--scope", "read")
    state.shows(["Marta Lindqvist", "marta@example.org"], "contacts", "list")
    state.shows(["ANTHROPIC_API_KEY", "LODGE_SECRET"], "secret", "list")
    state.shows(["weekly newsletter", "nobody reads it"], "rules", "list")
    state.shows(["kitchen display"], "token", "list")


def memories(home, state):
    def add(butler, text, *more):
        return home.json("memory", "add", text, "--butler", butler, *more)["id"]

    def shows(butler, memory, *words):
        state.shows(list(words), "memory", "show", memory, "--butler", butler, "--json")

    allergy = add("health", "Ada is allergic to penicillin", "--predicate", "allergic_to", "--permanence", "permanent")
    key = add("general", "The spare key hangs behind the boiler", "--predicate", "spare_key")
    moved = add("general", "The spare key is at the neighbour's", "--predicate", "spare_key")
    rumour = add("general", "The bakery closes on Mondays", "--predicate", "closes")
    rule = add("health", "Give weights in kilograms", "--type", "rule")
    private = add("finance", "Ada saves for a boat", "--predicate", "saves_for", "--private", "--sensitivity", "sensitive")
    walk = add("general", "Ada walked around the lake with Marta", "--type", "episode")
    home.run("memory", "forget", rumour, "--butler", "general", "--reason", "it was a rumour")
    shows("health", allergy, "allergic to penicillin", '"active"', '"permanent"')
    shows("general", key, "behind the boiler", '"superseded"')
    shows("general", moved, "at the neighbour's", '"active"', key)
    state.shows(["it was a rumour"], "memory", "history", rumour, "--butler", "general")
    shows("health", rule, "in kilograms")
    shows("finance", private, "saves for a boat", "sensitive")
    shows("general", walk, "around the lake")
    state.shows(["allergic to penicillin"], "memory", "search", "penicillin", "--butler", "general")


def plans(home, state):
    home.run("schedule", "add", "Ask how the tomatoes are", "--cron", "0 8 * * 6", "--name", "tomatoes")
    plants = home.json("schedule", "add", "Water the plants", "--every", "3 days", "--name", "plants")["id"]
    home.run("schedule", "pause", plants)
    state.shows(["Ask how the tomatoes are", "0 8 * * 6"], "schedule", "list", "--json")
    state.shows(["paused"], "schedule", "show", plants)
    state.steps.append(["schedule", "resume", plants])
    state.will_show(['"paused": false'], "schedule", "show", plants, "--json")
    home.run("calendar", "add", "Harvest fair", "2031-03-10", "--end", "2031-03-12", "--location", "Village green")
    home.tool("general", "calendar_create_event", title="Choir", start_at="2031-03-12T19:00",
              recurrence_rule="FREQ=WEEKLY;COUNT=3")
    days = json.dumps({"start_at": "2031-03-09", "end_at": "2031-03-22"})
    state.shows(["Harvest fair", "Village green", "2031-03-10", "Choir", "2031-03-19"],
                "tool", "call", "general", "calendar_list_events", days)
    reminder = home.tool("general", "remind", message="The cake is in the oven", delay_minutes=20)["delivery_id"]
    state.shows(["The cake is in the oven", "deferred"], "deliveries", "show", reminder)
    state.will_show([SENT], "deliveries", "show", reminder, "--json")


def trades(home, state):
    home.tool("general", "state_set", key="last_walk", value={"km": 7.5})
    home.tool("health", "measurement_log", kind="weight", value={"kg": 81.4})
    home.tool("finance", "track_bill", payee="Waterworks", amount=41.5, currency="EUR", due_date="2031-04-01")
    home.tool("travel", "trip_create", name="Uppsala in spring", destination="Uppsala",
              start_date="2031-05-02", end_date="2031-05-06")
    anna = home.tool("relationship", "contact_create", first_name="Anna", last_name="Lund")
    home.tool("relationship", "note_create", contact_id=anna["id"], content="Plays the cello.")
    state.shows(["7.5"], "tool", "call", "general", "state_get", '{"key": "last_walk"}')
    state.shows(["Waterworks", "41.5"], "tool", "call", "finance", "list_bills", "{}")
    state.shows(["Uppsala in spring"], "tool", "call", "travel", "list_trips", "{}")
    state.shows(["Anna", "Lund"], "tool", "call", "relationship", "contact_search", '{"query": "Anna"}')
    state.shows(["Plays the cello"], "tool", "call", "relationship", "note_search", '{"query": "cello"}')
    home.tool("general", "journal_log", text="The roof was repaired.")
    home.tool("general", "journal_write", file="reference/decisions.md", title="Solar panels",
              text="We take those from Uppsala.")
    state.shows(["The roof was repaired."], "journal", "show", "sessions/today.md")
    state.shows(["Solar panels", "those from Uppsala"], "journal", "show", "reference/decisions.md")
    fact = "The irrigation pump stops when the tank sensor is wet"
    home.tool("workshop", "remember", content=fact, type="Learning", project="orchard")
    question = json.dumps({"query": "irrigation pump", "project": "orchard"})
    state.shows(["tank sensor"], "tool", "call", "workshop", "recall", question)
    # The owner takes one change back here, and another one after the upgrade.
    soup = home.tool("health", "meal_log", type="lunch", description="Pea soup")
    for other in ["Tomato soup", "Onion soup"]:
        home.tool("health", "meal_update", meal_id=soup["id"], description=other)
    calls = [item["call"] for item in home.json("undo", "--butler", "health")["items"] if item["tool"] == "meal_update"]
    home.run("undo", calls[0])
    state.shows(["Tomato soup"], "tool", "call", "health", "meal_history", "{}")
    state.steps.append(["undo", calls[1]])
    state.will_show(["Pea soup"], "tool", "call", "health", "meal_history", "{}")


def conversations(home, state):
    answered = handed_in(home, 1, "I weigh 82 kg today", "health")
    home.until("an answer", lambda: "Noted: 82 kg." in home.run("inbox", "show", answered))
    state.shows(["I weigh 82 kg today", "Noted: 82 kg.", "done"], "inbox", "show", answered)
    state.shows(["measurement_log", "Noted: 82 kg."], "timeline", answered, "--json")
    # Nobody has connected the channel on which it came.
    state.shows(["waiting for a channel"], "deliveries", "list")
    sketch = home.place / "barn.png"
    sketch.write_bytes(base64.b64decode(PIXEL))
    home.run("chat", "general", "--attach", str(sketch), given="Keep this sketch of the barn\n")
    reference = "blob:sha256:" + hashlib.sha256(sketch.read_bytes()).hexdigest()
    reference = json.dumps({"storage_ref": reference})
    state.shows([PIXEL, "image/png"], "tool", "call", "general", "get_attachment", reference)
    session = home.json("trigger", "general", "Remember how I like lists")["session_id"]
    state.shows(["Remember how I like lists", "note_to_self", "I will."], "sessions", "show", session)
    state.shows(["Ada wants lists short."], "notes", "list")
    home.run("council", "ask", "When should we prune the apple trees?")
    state.shows(["When should we prune the apple trees?"], "council", "list")
    question = home.json("council", "list")["questions"][0]["id"]
    state.shows(["north", "south", "Prune the apple trees in February."], "council", "show", question)
    for what in ["books", "debts", "recipes"]:
        home.run("trigger", "general", f"Start a collection of {what}")
    waiting = {held["tool_args"]["name"]: held["id"] for held in home.json("approvals", "list")["items"]}
    home.run("approvals", "approve", waiting["books"], "--json")
    home.run("approvals", "reject", waiting["debts"], "--reason", "we lend nothing")
    home.until("the books", lambda: "executed" in home.run("approvals", "show", waiting["books"]))

    def told():
        return sum(session["result"] == "I know." for session in home.json("sessions", "list")["items"])

    home.until("its butler knows of both ends", lambda: told() == 2)
    state.shows(["books", "executed"], "approvals", "show", waiting["books"])
    state.shows(["debts", "rejected", "we lend nothing"], "approvals", "show", waiting["debts"])
    state.shows(["recipes", "pending"], "approvals", "show", waiting["recipes"], "--json")
    state.steps.append(["approvals", "approve", waiting["recipes"], "--json"])
    state.will_show(["executed"], "approvals", "show", waiting["recipes"])
    state.will_show(["books", "recipes"], "tool", "call", "general", "collection_list", "{}")


def deliveries(home, state):
    def send(text, channel, to):
        return home.json("deliveries", "send", text, "--channel", channel, "--to", to)["delivery_id"]

    sent = send("The gate is mended", "file", "deliveries.jsonl")
    home.until("it is sent", lambda: SENT in home.run("deliveries", "show", sent, "--json"))
    state.shows(["The gate is mended", SENT], "deliveries", "show", sent, "--json")
    late = send("Guests come at seven", "webhook", "lodge")
    home.until("a try that failed", lambda: "Connection refused" in home.run("deliveries", "show", late))
    state.shows(["Guests come at seven"], "deliveries", "show", late)
    state.will_show([SENT], "deliveries", "show", late, "--json")


def under_way(home, state, model):
    """Leaves two messages under way: one is being routed, the other worked on."""
    work = handed_in(home, 2, "Order two sacks of oats", "general")
    route = handed_in(home, 3, "Is the well deep enough?", None)
    home.until("both are under way", lambda: len(model.hung) == 2)
    for request, answer in [(work, "Two sacks of oats are ordered."), (route, "It is nine metres deep.")]:
        state.will_show([answer, "done"], "inbox", "show", request)
    state.will_show(["sacks"], "tool", "call", "general", "state_get", '{"key": "oats"}')


def main():
    if len(sys.argv) != 3 or not re.fullmatch(r"[a-z0-9._-]+", sys.argv[2]):
        sys.exit(__doc__)
    program, target = pathlib.Path(sys.argv[1]).resolve(), HERE / sys.argv[2]
    if target.exists():
        sys.exit(f"{target} is there already; a recorded state is never changed")
    place = pathlib.Path(tempfile.mkdtemp(prefix="butlerd-state-"))
    # The database runs as a user of its own, who passes through.
    place.chmod(0o711)
    model = Model()
    home = Household(program, place, model)
    state = State(home)
    try:
        home.serve()
        for part in [people_and_keys, memories, plans, trades, conversations, deliveries]:
            part(home, state)
        home.stop(signal.SIGTERM)
        home.serve()
        under_way(home, state, model)
        # Nothing moves on while it is read: what the kill leaves is what is written down.
        home.served.send_signal(signal.SIGSTOP)
        database = dumped(place / "data")
        home.stop(signal.SIGKILL)
        target.mkdir(parents=True)
        (target / "household.sql.xz").write_bytes(lzma.compress(database.encode(), preset=9 | lzma.PRESET_EXTREME))
        shutil.copyfile(place / "data/master.key", target / "master.key")
        write(home, state, target / "state.json")
    finally:
        if home.served and home.served.poll() is None:
            home.stop(signal.SIGKILL)
    shutil.rmtree(place)
    print(f"{target} is recorded")


def dumped(data):
    """The SQL that makes roles and tables, in a new database `butlers` of a server whose only role is `butlerd`."""
    key = base64.b64decode((data / "master.key").read_text(encoding="utf-8"))
    env = {**os.environ, "PGHOST": str(data / "sock"), "PGUSER": "butlerd", "PGDATABASE": "butlers",
           "PGPASSWORD": hmac.digest(key, b"owner", "sha256").hex()}

    def run(*command):
        return subprocess.run(command, env=env, text=True, stdout=subprocess.PIPE, check=True).stdout

    roles = run("pg_dumpall", "--roles-only", "--database=butlers")
    roles = re.sub(r"(?m)^(CREATE|ALTER) ROLE butlerd[ ;].*\n", "", roles)
    rows = run("pg_dump", "--create", "--rows-per-insert=50")
    rows = re.sub(r"(?ms)^CREATE DATABASE .*?^\\connect butlers\n", "", rows, count=1)
    # They are psql's own, and the next program needs none.
    return re.sub(r"(?m)^\\(un)?restrict .*\n", "", roles + rows)


def write(home, state, file):
    written = {
        "program": home.run("version").strip(), "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "zone": home.zone, "roster": LINES, "model": ALWAYS + AFTER,
        "shown": state.shown, "steps": state.steps, "later": {"minutes": 30, "shown": state.later},
    }
    file.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
