// What pages do beyond what HTML does: they keep themselves up to date, find things, and let one point at plots.
"use strict";
(() => {
  // Liveness: on `changed` the page asks for itself again and takes its `main`, at most once a second, and never while
  // somebody writes or has written, has marked a text, or is about to press a button of a list, which would move away.
  const loaded = Date.now();
  let wanted = false, last = 0, timer = 0, source = null;
  const changed = (field) => {
    if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
    if (field.tagName !== "SELECT") return field.value !== field.defaultValue;
    return field.selectedIndex !== Math.max(0, [...field.options].findIndex((option) => option.defaultSelected));
  };
  const busy = (main) => {
    const at = document.activeElement;
    const writes = at && main.contains(at) && /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) && at.type !== "hidden";
    const marked = String(window.getSelection()).length > 0;
    const written = [...main.querySelectorAll("input:not([type=hidden]), textarea, select")].some(changed);
    const aims = main.querySelector("li form:hover, td form:hover, form:focus-within, form[data-sent]");
    return writes || marked || written || aims || document.querySelector("dialog[open]");
  };
  // What changed is not shown yet: it is asked for again after this time, or when whoever is busy leaves.
  const later = (ms) => {
    wanted = true;
    document.body.classList.add("waits");
    if (ms && !timer) timer = setTimeout(refresh, ms);
  };
  const refresh = async () => {
    timer = 0;
    const main = document.getElementById("main");
    if (!main) return;
    wanted = document.hidden || !!busy(main);
    document.body.classList.toggle("waits", wanted);
    if (wanted) return;
    last = Date.now();
    const address = new URL(location.href);
    // What was just done is told long enough to be read.
    if (last - loaded > 8000) address.searchParams.delete("did");
    let answer, html;
    // The daemon is away for a moment, or the network, or what stands before the daemon answers for it.
    try {
      answer = await fetch(address, { cache: "no-store" });
      html = answer.ok ? await answer.text() : "";
    } catch { later(3000); return; }
    if (answer.status === 401) { location.reload(); return; }
    // What is refused or gone is refused again, most likely.
    if (!answer.ok) { later(answer.status < 500 ? 30_000 : 3000); return; }
    const page = new DOMParser().parseFromString(html, "text/html");
    const next = page.getElementById("main");
    if (!next) { later(3000); return; }
    // Somebody began to write while it was on its way: it is asked for again once they are done.
    if (busy(main)) { later(0); return; }
    const unfolded = [...main.querySelectorAll("details")].map((d) => d.open);
    const focus = document.activeElement && main.contains(document.activeElement) ? path(main, document.activeElement) : null;
    // What listens to the window or holds a stream would outlive the part of the page that it belongs to.
    for (const [figure, end] of drawn) { end(); drawn.delete(figure); }
    // A list that a stream adds to has more than the page that was asked for.
    for (const list of main.querySelectorAll("[data-stream][id]")) {
      const fresh = next.querySelector(`#${list.id}[data-stream]`);
      if (fresh && open.has(list)) fresh.replaceWith(list);
    }
    main.replaceChildren(...next.childNodes);
    for (const [list, events] of open) if (!list.isConnected) { events.close(); open.delete(list); }
    [...main.querySelectorAll("details")].forEach((d, n) => { if (n < unfolded.length) d.open = unfolded[n]; });
    if (focus) { const again = follow(main, focus); if (again) again.focus({ preventScroll: true }); }
    if (window.htmx) htmx.process(main);
    main.dataset.live = next.dataset.live || "";
    if (!next.dataset.live && source) { source.close(); source = null; }
    plots(); streams(); connect();
  };
  const path = (root, node) => {
    const steps = [];
    for (; node && node !== root; node = node.parentElement) steps.unshift([...node.parentElement.children].indexOf(node));
    return steps;
  };
  const follow = (root, steps) => steps.reduce((node, n) => node && node.children[n], root);
  const soon = () => { if (!timer) timer = setTimeout(refresh, Math.max(50, 1000 - (Date.now() - last))); };
  const connect = () => {
    const main = document.getElementById("main");
    // A browser opens six connections to one place, and each stream holds one: those of hidden pages are closed.
    if (!main || !main.dataset.live || source || document.hidden) return;
    // It says which change the page has seen last; after a cut the browser itself says which one it heard of last. So
    // `changed` comes where something was missed, and only there.
    source = new EventSource(main.dataset.live);
    source.addEventListener("changed", soon);
    source.addEventListener("open", () => { document.body.classList.remove("lost"); });
    source.addEventListener("error", () => {
      document.body.classList.add("lost");
      // A refused stream is not tried again by the browser itself.
      if (source && source.readyState === EventSource.CLOSED) { source = null; soon(); setTimeout(connect, 3000); }
    });
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      source?.close(); source = null;
      for (const list of document.querySelectorAll("[data-stream]")) { open.get(list)?.close(); open.delete(list); }
    } else {
      connect(); streams();
      // What time alone changes is told twice a minute.
      if (wanted || Date.now() - last > 30_000) soon();
    }
  });
  for (const leaves of ["focusout", "pointerout"]) document.addEventListener(leaves, () => { if (wanted) soon(); });

  // Words that are written while one looks: a stream adds pieces to a list.
  const open = new Map();
  const streams = () => {
    for (const list of document.querySelectorAll("[data-stream]")) {
      if (open.has(list) || document.hidden) continue;
      const events = new EventSource(list.dataset.stream);
      open.set(list, events);
      events.addEventListener("piece", (event) => {
        const box = document.createElement("template");
        box.innerHTML = event.data;
        const piece = box.content.firstElementChild;
        const old = piece && piece.id && document.getElementById(piece.id);
        // Whoever reads further up is left there.
        const follows = list.getBoundingClientRect().bottom < window.innerHeight + 200;
        if (piece?.hidden) old?.remove();
        else if (old) old.replaceWith(piece);
        else if (piece) list.append(piece);
        while (list.children.length > 400) list.firstElementChild.remove();
        if (follows) list.lastElementChild?.scrollIntoView({ block: "nearest" });
      });
      events.addEventListener("over", () => { events.close(); soon(); });
      // The browser comes back by itself, but not where it was refused: while the daemon starts again, say.
      events.addEventListener("error", () => {
        if (events.readyState === EventSource.CLOSED) setTimeout(() => { open.delete(list); streams(); }, 3000);
      });
    }
  };

  // The palette.
  const palette = document.querySelector("dialog.palette");
  const show = () => { if (palette && !palette.open) { palette.showModal(); palette.querySelector("input").select(); } };
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") { event.preventDefault(); show(); }
    if (palette?.open && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      const all = [palette.querySelector("input"), ...palette.querySelectorAll(".found a")];
      const at = all.indexOf(document.activeElement);
      const next = all[(at + (event.key === "ArrowDown" ? 1 : all.length - 1)) % all.length];
      if (next) { event.preventDefault(); next.focus(); }
    }
  });
  palette?.querySelector("form").addEventListener("submit", (event) => {
    const first = palette.querySelector(".found a");
    if (first) { event.preventDefault(); location.href = first.href; }
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-palette]")) show();
    if (event.target === palette) palette.close();
  });

  // Nothing is sent twice by a double click.
  document.addEventListener("submit", (event) => {
    if (event.target.dataset.sent) event.preventDefault();
    else if (event.target.method === "post") event.target.dataset.sent = "1";
  });
  window.addEventListener("pageshow", () => document.querySelectorAll("[data-sent]").forEach((f) => delete f.dataset.sent));

  // Plots that one can point at, in the place of those that the daemon drew.
  const drawn = new Map();
  const zone = document.body.dataset.zone;
  const plots = () => {
    if (!window.uPlot) return;
    const css = getComputedStyle(document.documentElement);
    for (const figure of document.querySelectorAll("figure[data-plot]")) {
      if (figure.dataset.drawn) continue;
      const data = JSON.parse(figure.dataset.plot);
      const x = data.times || data.labels.map((_, n) => n);
      if (x.length < 2) continue;
      figure.dataset.drawn = "1";
      const ink = (n) => css.getPropertyValue(`--s${n % 6}`).trim();
      const axis = { stroke: css.getPropertyValue("--dim").trim(), grid: { stroke: css.getPropertyValue("--line").trim(), width: 1 } };
      const scale = data.times ? {} : { values: (_, at) => at.map((n) => (Number.isInteger(n) ? data.labels[n] ?? "" : "")) };
      const bars = data.bars ? { paths: uPlot.paths.bars({ size: [0.6, 60] }) } : {};
      const box = document.createElement("div");
      figure.querySelector("svg").replaceWith(box);
      const draw = new uPlot({
        width: Math.max(200, figure.clientWidth), height: 200, cursor: { points: { size: 6 } },
        tzDate: (at) => (zone ? uPlot.tzDate(new Date(at * 1000), zone) : new Date(at * 1000)),
        scales: { x: { time: !!data.times } }, axes: [{ ...axis, ...scale }, { ...axis, size: 60 }],
        series: [{ label: "", value: (_, n) => (n == null ? "" : data.times ? new Date(n * 1000).toLocaleString(undefined, { timeZone: zone }) : data.labels[n]) },
          ...data.series.map((s, n) => ({ label: s.name, stroke: ink(n), fill: data.bars ? ink(n) : undefined, width: 2,
            points: { show: x.length < 60 }, ...bars, value: (_, v) => (v == null ? "–" : `${v} ${data.unit}`) }))],
      }, [x, ...data.series.map((s) => s.values)], box);
      const sized = new ResizeObserver(() => draw.setSize({ width: Math.max(200, figure.clientWidth), height: 200 }));
      sized.observe(figure);
      drawn.set(figure, () => { sized.disconnect(); draw.destroy(); });
    }
  };
  connect(); plots(); streams();
  document.addEventListener("htmx:afterSwap", streams);
})();
