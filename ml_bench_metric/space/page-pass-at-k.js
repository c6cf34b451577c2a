// The section `Pass@k` of the page.
(function (mlBench) {
  "use strict";

  const { byId, element, readField, choice, say, keepUpdated } = mlBench.page;
  const { InputError } = mlBench.arguments;
  const { wholeNumber, parseKs, parseTasks } = mlBench.passAtKInput;
  const { unbiased, perTask, mean, intervals } = mlBench.passAtK;
  /** Up to this n the ways to draw are counted out. */
  const MOST_COUNTED = 50;
  const EXAMPLES = {
    lists:
      "tiny-gan/1: 1 1 0 0 0\ntiny-gan/2: 0 0 1 0 1\ntiny-gan/3: 0 0 0 0 0\ntiny-text/24: 1 1 1 1 0\ntiny-text/25: 0 1 0 0 0\n",
    counts: "tiny-gan/1 5 2\ntiny-gan/2 5 2\ntiny-gan/3 5 0\ntiny-text/24 5 4\ntiny-text/25 5 1\n",
  };
  const HINTS = {
    lists: "one per line, such as  name: 1 0 0  or  PFF",
    counts: "one per line: a name if you like, then n and c",
  };

  // --- one task ---

  function updateSingle() {
    const n = readField("n", (text) => wholeNumber(text, "n", 0));
    const c = readField("c", (text) => {
      const value = wholeNumber(text, "c", 0);
      if (n !== null && value > n) throw new InputError("c is more than n.");
      return value;
    });
    const k = readField("k", (text) => wholeNumber(text, "k", 1));
    const place = byId("single-result");
    if (n === null || c === null || k === null) place.replaceChildren("No result: a number cannot be read.");
    else if (k > n)
      place.replaceChildren(
        element("b", {}, "undefined"),
        `k is larger than n: ${k} candidates cannot be drawn from ${n}.`,
      );
    else place.replaceChildren(element("b", {}, `pass@${k} = ${shown(unbiased(n, c, k))}`), reason(n, c, k));
  }

  function reason(n, c, k) {
    const formula = `1 − C(${n - c}, ${k}) / C(${n}, ${k})`;
    if (n > MOST_COUNTED) return `${formula}.`;
    const all = choose(n, k);
    const passing = all - choose(n - c, k);
    return `${formula}: ${passing.toLocaleString("en")} of the ${all.toLocaleString("en")} ways to draw ${k} of ${n} hold one that passes.`;
  }

  /** The binomial coefficient, exactly. */
  function choose(n, k) {
    let found = 1n;
    for (let factor = 1; factor <= k; factor += 1) found = (found * BigInt(n - k + factor)) / BigInt(factor);
    return k > n ? 0n : found;
  }

  // --- many tasks ---

  function updateTasks() {
    const format = choice("format");
    say("tasks-hint", HINTS[format]);
    const tasks = readField("tasks", (text) => parseTasks(text, format));
    const ks = readField("ks", parseKs);
    if (tasks === null || ks === null) {
      say("tasks-summary", `No result: the ${tasks === null ? "tasks" : "values of k"} cannot be read.`);
      byId("tasks-result").replaceChildren();
      return;
    }
    const sum = (values) => values.reduce((total, value) => total + value, 0);
    const n = sum(tasks.map((task) => task.n));
    const c = sum(tasks.map((task) => task.c));
    say(
      "tasks-summary",
      `${tasks.length} task${tasks.length > 1 ? "s" : ""}, ${n} candidate${n === 1 ? "" : "s"}, ${c} pass`,
    );
    const estimators = format === "lists" ? ["unbiased", "ordered"] : ["unbiased"];
    byId("tasks-result").replaceChildren(table(scores(tasks, ks, estimators), estimators));
  }

  /** Return {k, cells} per k, a cell being {value, interval} per estimator, or null where it is undefined. */
  function scores(tasks, ks, estimators) {
    const rows = ks.flatMap((k) => estimators.map((estimator) => perTask(tasks, k, estimator)));
    const values = rows.map(mean);
    const defined = rows.filter((_, row) => Number.isFinite(values[row]));
    const found = intervals(defined);
    const cells = values.map((value) => (Number.isFinite(value) ? { value, interval: found.shift() } : null));
    return ks.map((k) => ({ k, cells: estimators.map(() => cells.shift()) }));
  }

  function table(found, estimators) {
    const heads = ["k", ...estimators].map((text) => element("th", { scope: "col" }, text));
    const cell = (score) => {
      if (score === null) return element("td", {}, "undefined", element("small", {}, "a task has fewer candidates"));
      const interval = `[${score.interval.map(shown).join(", ")}]`;
      return element("td", { className: "number" }, shown(score.value), element("small", {}, interval));
    };
    const rows = found.map(({ k, cells }) =>
      element("tr", {}, element("th", { className: "number", scope: "row" }, `pass@${k}`), ...cells.map(cell)),
    );
    return element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows));
  }

  const shown = (value) => value.toFixed(4);

  function changeFormat() {
    const field = byId("tasks");
    if (Object.values(EXAMPLES).includes(field.value) || !field.value) field.value = EXAMPLES[choice("format")];
    updateTasks();
  }

  for (const radio of document.querySelectorAll('input[name="format"]')) radio.addEventListener("change", changeFormat);
  byId("tasks").value = EXAMPLES[choice("format")];
  keepUpdated(byId("single-form"), updateSingle);
  keepUpdated(byId("tasks-form"), updateTasks);
})((globalThis.mlBench ??= {}));
