"""Makes events that repeat, by a seed, and says when they take place.

usage: recurrence.py SEED COUNT

Prints one JSON object a line: `ics`, the window `from` and `to`, and `instances`, each with its start and end: an instant
in UTC, or a day. Each rule is one that RFC 5545 allows, near a change of the clock in its zone.
"""

import datetime as dt
import json
import random
import sys
import warnings
from zoneinfo import ZoneInfo

import icalendar
import recurring_ical_events

warnings.simplefilter("ignore")
UTC = dt.timezone.utc
# Zones, each with days on which its clock changes: forwards, backwards, and in the year after.
ZONES = {
    "Europe/Berlin": [(2026, 3, 29), (2026, 10, 25), (2027, 3, 28)],
    "America/New_York": [(2026, 3, 8), (2026, 11, 1), (2027, 3, 14)],
    "Australia/Sydney": [(2026, 4, 5), (2026, 10, 4), (2027, 4, 4)],
    "Australia/Lord_Howe": [(2026, 4, 5), (2026, 10, 4), (2027, 4, 4)],
    "America/St_Johns": [(2026, 3, 8), (2026, 11, 1), (2027, 3, 14)],
}
DAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]


def some(r, items, most):
    return ",".join(str(i) for i in sorted(r.sample(items, r.randint(1, most)), key=items.index))


def rule(r, all_day):
    """A rule without its end. dateutil, on which the library stands, wants days with and without a number to be the same
    days, where RFC 5545 joins them, and fails at numbers that a month doesn't have: such rules are not made."""
    freq = r.choice(["DAILY", "WEEKLY", "MONTHLY", "YEARLY"] + ([] if all_day else ["HOURLY"]))
    parts = [f"FREQ={freq}"]
    if r.random() < 0.5:
        parts.append(f"INTERVAL={r.randint(2, 5 if freq != 'HOURLY' else 13)}")
    month_days = [n for n in range(-31, 32) if n]
    numbered = [f"{n}{d}" for n in (1, 2, 3, 4, 5, -1, -2) for d in DAYS]
    picked = []
    if freq == "WEEKLY" and r.random() < 0.7:
        picked.append("BYDAY=" + some(r, DAYS, 4))
    if freq == "DAILY" and r.random() < 0.3:
        picked.append("BYDAY=" + some(r, DAYS, 5))
    if freq == "MONTHLY":
        kind = r.randint(0, 4)
        if kind in (1, 4):
            picked.append("BYMONTHDAY=" + some(r, month_days, 5))
        if kind in (2, 4):
            picked.append("BYDAY=" + some(r, r.choice([DAYS, numbered]) if kind == 2 else DAYS, 3))
    if freq == "YEARLY":
        kind = r.randint(0, 4)
        if kind == 1:
            picked.append("BYYEARDAY=" + some(r, [n for n in range(-366, 367) if n], 6))
        if kind == 2:
            picked += ["BYWEEKNO=" + some(r, list(range(1, 53)), 5), "BYDAY=" + some(r, DAYS, 3)]
        if kind == 3:
            wide = [f"{n}{d}" for n in (1, 5, 13, -1, -20, 44) for d in DAYS]
            return parts + ["BYDAY=" + some(r, r.choice([DAYS, wide]), 3)]
        if kind == 4:
            picked.append("BYMONTHDAY=" + some(r, month_days, 3))
    if freq != "YEARLY" or not any(part.startswith(("BYWEEKNO", "BYYEARDAY")) for part in picked):
        if r.random() < (0.6 if freq == "YEARLY" else 0.15):
            picked.append("BYMONTH=" + some(r, list(range(1, 13)), 5))
    # The library refuses hours that an interval never hits, so such rules have none.
    if not all_day and not (freq == "HOURLY" and len(parts) == 2) and r.random() < 0.2:
        picked.append("BYHOUR=" + some(r, list(range(24)), 3))
    if not all_day and freq != "HOURLY" and r.random() < 0.15:
        picked.append("BYMINUTE=" + some(r, list(range(0, 60, 15)), 2))
    # dateutil counts positions in the part of the first week that is not over yet, not in the week.
    if picked and freq not in ("HOURLY", "WEEKLY") and r.random() < 0.2:
        picked.append("BYSETPOS=" + some(r, [1, 2, 3, -1, -2], 2))
    if r.random() < 0.3:
        picked.append("WKST=" + r.choice(DAYS))
    r.shuffle(picked)
    return parts + picked


class Event:
    """One generated event with its exceptions."""

    def __init__(self, r, n):
        self.r, self.zone = r, r.choice(sorted(ZONES))
        self.tz = ZoneInfo(self.zone)
        self.change = dt.date(*r.choice(ZONES[self.zone]))
        self.all_day = r.random() < 0.2
        day = self.change - dt.timedelta(days=r.randint(0, 40))
        clock = dt.time(r.choice([0, 1, 2, 2, 3, 9, 14, 22, 23]), r.choice([0, 0, 15, 30]))
        self.start = day if self.all_day else dt.datetime.combine(day, clock)
        days, minutes = r.choice([1, 1, 2, 5]), r.choice([0, 15, 60, 90, 480, 1500])
        self.length = dt.timedelta(days=days) if self.all_day else dt.timedelta(minutes=minutes)
        self.uid = f"event-{n}"

    def utc(self, at):
        return at.replace(tzinfo=self.tz).astimezone(UTC)

    def text(self, at, form="zone"):
        """Parameters and value of a time in one of its forms."""
        if not isinstance(at, dt.datetime):
            return ";VALUE=DATE", at.strftime("%Y%m%d")
        if form == "utc":
            return "", self.utc(at).strftime("%Y%m%dT%H%M%SZ")
        if form == "day":
            return ";VALUE=DATE", at.strftime("%Y%m%d")
        return f";TZID={self.zone}", at.strftime("%Y%m%dT%H%M%S")

    def line(self, name, at, form="zone"):
        params, value = self.text(at, form)
        return f"{name}{params}:{value}"

    def until(self):
        last = self.start + dt.timedelta(days=self.r.randint(0, 90))
        if self.all_day:
            return last.strftime("%Y%m%d")
        form = self.r.choice(["utc", "utc", "local", "day"])
        if form == "utc":
            return self.utc(last).strftime("%Y%m%dT%H%M%SZ")
        return last.strftime("%Y%m%dT%H%M%S" if form == "local" else "%Y%m%d")

    def component(self, lines):
        stamp = "DTSTAMP:20260101T000000Z"
        return ["BEGIN:VEVENT", f"UID:{self.uid}", stamp, "SUMMARY:Something", *lines, "END:VEVENT"]

    def ends(self, start):
        if self.r.random() < 0.5:
            return self.line("DTEND", start + self.length)
        minutes = int(self.length.total_seconds() // 60)
        return f"DURATION:P{self.length.days}D" if self.all_day else f"DURATION:PT{minutes}M"

    def ics(self):
        r = self.r
        parts = rule(r, self.all_day)
        end = r.randint(0, 2)
        if end == 1:
            parts.append(f"COUNT={r.randint(1, 40)}")
        if end == 2:
            parts.append("UNTIL=" + self.until())
        master = [self.line("DTSTART", self.start), self.ends(self.start), "RRULE:" + ";".join(parts)]
        plain = self.expand([master], dt.timedelta(days=60))
        starts = [at.replace(tzinfo=None) if isinstance(at, dt.datetime) else at for at, _ in plain]
        # A start that the clock skips has no name of its own.
        starts = [at for at in starts if self.all_day or self.utc(at).astimezone(self.tz).replace(tzinfo=None) == at]
        r.shuffle(starts)
        # The library takes an exception's local time for one in UTC as well, so with several times a day it excepts others.
        often = any(part.startswith(("FREQ=HOURLY", "BYHOUR", "BYMINUTE")) for part in parts)
        if often:
            starts = []
        components = [master]
        for _ in range(r.choice([0, 0, 1, 3])):
            if starts:
                forms = ["zone"] if self.all_day else ["zone", "utc", "day"]
                master.append(self.line("EXDATE", starts.pop(), r.choice(forms)))
        if not often and r.random() < 0.25:
            extra = self.start + dt.timedelta(days=r.randint(1, 50))
            if not self.all_day:
                extra += dt.timedelta(minutes=r.choice([0, 7, 33]))
            if not self.all_day and r.random() < 0.3:
                master.append(f"RDATE;VALUE=PERIOD:{self.text(extra, 'utc')[1]}/PT45M")
            else:
                master.append(self.line("RDATE", extra, "zone" if self.all_day else r.choice(["zone", "utc"])))
        onward = r.random() < 0.08
        for n in range(r.choice([0, 0, 1, 2])):
            if starts:
                at = starts.pop()
                step = dt.timedelta(days=r.randint(-2, 2))
                if not self.all_day:
                    step += dt.timedelta(minutes=r.choice([0, 30, -45]))
                head = "RECURRENCE-ID;RANGE=THISANDFUTURE" if onward and n == 0 else "RECURRENCE-ID"
                form = "zone" if self.all_day else r.choice(["zone", "utc"])
                lines = [self.line("DTSTART", at + step), self.ends(at + step), self.line(head, at, form), "SEQUENCE:1"]
                components.append(lines)
        self.components = components
        return self.written(components)

    def written(self, components):
        lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//test//EN"]
        for component in components:
            lines += self.component(component)
        return "\r\n".join([*lines, "END:VCALENDAR", ""])

    def window(self):
        before = dt.datetime.combine(self.change, dt.time(), UTC) - dt.timedelta(days=self.r.randint(1, 45))
        return before, before + dt.timedelta(days=self.r.choice([1, 7, 31, 100, 400]))

    def end_shown(self, start, end):
        """The library adds the length to a clock time that does not exist, so an event of an hour may last none there.
        Ours keeps its length, so of such instances the start alone is compared."""
        if isinstance(start, dt.datetime) and start.astimezone(UTC).astimezone(start.tzinfo).replace(tzinfo=None) != start.replace(tzinfo=None):
            return None
        return shown(end)

    def expand(self, components, span=None, window=None):
        calendar = icalendar.Calendar.from_ical(self.written(components))
        begin = dt.datetime.combine(self.change, dt.time(), UTC)
        window = window or (begin - dt.timedelta(days=45), begin + span)
        found = recurring_ical_events.of(calendar).between(*window)
        return sorted(((event["DTSTART"].dt, event["DTEND"].dt) for event in found), key=lambda pair: shown(pair[0]))


def shown(at):
    if isinstance(at, dt.datetime):
        return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return at.isoformat()


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    for n in range(count):
        r = random.Random(f"{seed}-{n}")
        event = Event(r, n)
        ics = event.ics()
        window = event.window()
        found = [[shown(start), event.end_shown(start, end)] for start, end in event.expand(event.components, window=window)]
        # Hourly rules hit the hour that a clock skips and the one after it at the same instant, and that is one event.
        firm = {start for start, end in found if end is not None}
        found = [pair for pair in found if pair[1] is not None or pair[0] not in firm]
        print(json.dumps({"ics": ics, "zone": event.zone, "from": shown(window[0]), "to": shown(window[1]), "instances": found}))


main()
