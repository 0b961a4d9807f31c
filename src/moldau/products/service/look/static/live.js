// Live updates. Without this file every page is still whole: it shows what was when it was loaded.
"use strict";
(() => {
  const main = document.getElementById("main");

  // "Copy" beside each JSON value; without JavaScript its text can be selected
  const offerCopies = (place) => place.querySelectorAll("button.copy[hidden]").forEach((each) => { each.hidden = false; });
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (button === null) return;
    const text = button.parentElement.querySelector("pre").textContent;
    try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; }
    catch { document.getSelection().selectAllChildren(button.parentElement.querySelector("pre")); button.textContent = "Selected"; }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  offerCopies(document);
  const state = document.getElementById("state");
  const MAX_ROWS = 500;
  let source = null;

  const stale = document.getElementById("stale");

  const say = (kind, text) => {
    state.className = "dot " + kind;
    state.title = text;
    // what stands there looks like now: say since when it is not
    const isOff = kind === "off";
    if (isOff && stale.hidden) stale.textContent = "no updates since " + new Date().toISOString().slice(11, 19);
    stale.hidden = !isOff;
  };

  const open = (url, listeners) => {
    const connect = () => {
      if (source !== null) return;
      source = new EventSource(url);
      source.onopen = () => say("on", "Updated as it changes");
      source.onerror = () => {
        say("off", "No updates now");
        if (source !== null && source.readyState === EventSource.CLOSED) { source = null; setTimeout(visible, 5000); }
      };
      for (const [name, listener] of Object.entries(listeners)) source.addEventListener(name, listener);
    };
    // a tab that nobody looks at costs the cluster nothing
    const visible = () => {
      if (!document.hidden) connect();
      else if (source !== null) { source.close(); source = null; say("", "Paused while hidden"); }
    };
    document.addEventListener("visibilitychange", visible);
    visible();
  };

  if (main.dataset.live !== undefined) {
    let held = null, isPressed = false;
    // what is being clicked or selected is not taken away
    const isBusy = () => isPressed || !document.getSelection().isCollapsed;
    const put = (markup) => {
      const unfolded = [...main.querySelectorAll("details")].map((each) => each.open);
      // markup of our own templates, which escaped every foreign text in it
      main.innerHTML = markup;
      main.querySelectorAll("details").forEach((each, index) => { each.open = unfolded[index] === true; });
    };
    const catchUp = () => { if (held !== null && !isBusy()) { put(held); held = null; } };
    main.addEventListener("pointerdown", () => { isPressed = true; });
    for (const name of ["pointerup", "pointercancel"]) {
      document.addEventListener(name, () => { isPressed = false; setTimeout(catchUp, 300); });
    }
    document.addEventListener("selectionchange", catchUp);
    open("/live?path=" + encodeURIComponent(main.dataset.live), {
      main: (event) => {
        held = JSON.parse(event.data);
        catchUp();
      },
    });
  }

  if (main.dataset.tail !== undefined) {
    const rows = document.getElementById("records");
    const note = document.getElementById("tail-state");
    const button = document.getElementById("pause");
    let paused = false, waiting = [], leftOut = 0;

    const cell = (kind, ...children) => {
      const made = document.createElement("td");
      if (kind) made.className = kind;
      made.append(...children);
      return made;
    };
    const span = (kind, text) => {
      const made = document.createElement("span");
      made.className = kind;
      made.textContent = text;
      return made;
    };
    const unfold = (value) => {
      const made = document.createElement("details");
      made.className = "unfold";
      const summary = document.createElement("summary");
      const button = document.createElement("button");
      const whole = document.createElement("pre");
      summary.className = whole.className = "data json";
      button.className = "copy";
      summary.textContent = value.text;
      button.textContent = "Copy";
      whole.textContent = value.pretty;
      made.append(summary, button, whole);
      return made;
    };
    const size = (bytes) => bytes < 1024 ? bytes + " B" : (bytes / 1024).toFixed(1) + " KiB";
    const shown = (value) => {
      if (value.kind === "null" || value.kind === "empty") return [span("quiet", value.kind)];
      if (value.pretty) return [unfold(value)];
      const parts = [span("data " + value.kind, value.text)];
      if (value.is_cut) parts.push(span("quiet", " … " + size(value.size) + " in all"));
      return parts;
    };
    const time = (ms) => ms < 0 || ms > 8.64e15 ? "" : new Date(ms).toISOString().replace("T", " ").replace("Z", "");
    const row = (record) => {
      const made = document.createElement("tr");
      made.className = "new";
      const value = cell("", ...shown(record.value));
      if (record.headers.length > 0) {
        const headers = document.createElement("div");
        headers.className = "headers";
        for (const [name, content] of record.headers) {
          const header = document.createElement("span");
          const bold = document.createElement("b");
          bold.textContent = name;
          header.append(bold, " ", ...shown(content));
          headers.append(header);
        }
        value.append(headers);
      }
      made.append(cell("time", time(record.timestamp_ms)), cell("n", String(record.partition)),
        cell("n", String(record.offset)), cell("", ...shown(record.key)), value);
      return made;
    };
    const add = (records) => {
      document.getElementById("none-yet")?.remove();
      for (const record of records) rows.prepend(row(record));
      while (rows.rows.length > MAX_ROWS) rows.lastElementChild.remove();
    };
    const tell = () => {
      const parts = [paused ? "paused, " + waiting.length + " waiting" : "live"];
      if (leftOut > 0) parts.push(leftOut.toLocaleString("en") + " left out: more than 50 a second");
      note.textContent = parts.join(" · ");
    };

    button.hidden = false;
    button.addEventListener("click", () => {
      paused = !paused;
      button.textContent = paused ? "Go on" : "Pause";
      if (!paused) { add(waiting); waiting = []; }
      tell();
    });
    open(main.dataset.tail, {
      records: (event) => {
        const found = JSON.parse(event.data);
        leftOut += found.left_out;
        if (paused) waiting = [...waiting, ...found.records].slice(-MAX_ROWS);
        else add(found.records);
        tell();
      },
      waiting: tell,
      trouble: (event) => { note.textContent = JSON.parse(event.data).reason; },
    });
  }

  if (main.dataset.sql !== undefined) {
    const form = document.getElementById("sql-form");
    const answers = document.getElementById("sql-answers");
    const note = document.getElementById("sql-state");
    const stop = document.getElementById("stop");
    let running = null, body = null, waiting = [], shown = 0;

    const made = (name, text, kind) => {
      const found = document.createElement(name);
      if (text !== undefined) found.textContent = text;
      if (kind) found.className = kind;
      return found;
    };
    const table = (columns) => {
      const found = made("table"), head = made("tr"), rows = made("tbody"), top = made("thead");
      head.append(...columns.map((name) => made("th", name)));
      top.append(head);
      found.append(top, rows);
      answers.append(found);
      return rows;
    };
    const row = (cells, isDeleted) => {
      const found = made("tr", undefined, isDeleted ? "deleted" : "");
      found.append(...cells.map((text) => text === null ? made("td", "null", "quiet") : made("td", text, "data")));
      return found;
    };
    // rows come faster than a screen shows them
    const flush = () => {
      if (body === null || waiting.length === 0) return;
      body.append(...waiting.map((each) => row(each.cells, each.is_deleted)));
      shown += waiting.length;
      waiting = [];
      while (body.rows.length > MAX_ROWS) body.firstElementChild.remove();
      note.textContent = shown.toLocaleString("en") + " rows" + (shown > MAX_ROWS ? ", the last " + MAX_ROWS + " shown" : "");
    };
    const listeners = {
      shown: (found) => {
        if (found.text) answers.append(made("pre", found.text, "data"));
        if (found.columns.length > 0) table(found.columns).append(...found.rows.map((cells) => row(cells, false)));
      },
      header: (found) => { body = table(found.columns); },
      row: (found) => {
        waiting.push(found);
        if (waiting.length >= MAX_ROWS) flush(); else if (waiting.length === 1) requestAnimationFrame(flush);
      },
      end: (found) => { flush(); answers.append(made("p", found.text, "quiet")); },
      trouble: (found) => { flush(); answers.append(made("pre", found.reason, "trouble")); },
    };
    const hear = (text) => {
      const name = /^event: (.*)$/m.exec(text), data = /^data: (.*)$/m.exec(text);
      if (name !== null && data !== null) listeners[name[1]]?.(JSON.parse(data[1]));
    };
    const run = async () => {
      running?.abort();
      const own = running = new AbortController();
      answers.replaceChildren();
      [body, waiting, shown] = [null, [], 0];
      note.textContent = "running";
      stop.hidden = false;
      try {
        const answer = await fetch(main.dataset.sql, {
          method: "POST", headers: { accept: "text/event-stream" }, body: new URLSearchParams(new FormData(form)), signal: own.signal,
        });
        if (!answer.ok) { listeners.trouble({ reason: await answer.text() }); return; }
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        let rest = "";
        for (;;) {
          const { value, done } = await reader.read();
          if (done) break;
          const parts = (rest + value).split("\n\n");
          rest = parts.pop();
          parts.forEach(hear);
        }
      } catch (error) {
        if (!own.signal.aborted) listeners.trouble({ reason: String(error) });
      } finally {
        if (running === own) {
          flush();
          running = null;
          stop.hidden = true;
          note.textContent = (shown > 0 ? note.textContent + " · " : "") + (own.signal.aborted ? "stopped" : "done");
        }
      }
    };
    form.addEventListener("submit", (event) => { event.preventDefault(); run(); });
    form.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(); } });
    stop.addEventListener("click", () => running?.abort());
  }
})();
