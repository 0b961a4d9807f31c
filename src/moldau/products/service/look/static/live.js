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
})();
