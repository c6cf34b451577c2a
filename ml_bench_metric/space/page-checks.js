// The section `Static checks` of the page.
(function (mlBench) {
  "use strict";

  const { byId, element, readField, choice, say, keepUpdated } = mlBench.page;
  const RULES = ["original", "strict"];
  const MOST_TOKENS = 300;
  const LOOKS_LIKE_AN_ANSWER = /^[ \t]*(?:```|~~~)|^[ \t]*(?:\$ |>>> )/m;

  function update() {
    const program = byId("program").value;
    byId("program-hint").textContent = LOOKS_LIKE_AN_ANSWER.test(program)
      ? "This looks like a model's whole answer, with a fence or prompts. By default the judge takes the program out first; here the text counts as it is."
      : "";
    const asked = readField("arguments", mlBench.arguments.parseArguments);
    byId("reading").hidden = asked === null;
    if (asked === null) {
      say("checks-summary", "No result: the arguments cannot be read.");
      byId("checks-result").replaceChildren();
      return;
    }
    const type = choice("type");
    const task = {
      language: type === "Bash Script" ? "bash" : "python",
      arguments: asked,
      variables: mlBench.arguments.exportedVariables(byId("prefix").value),
    };
    const found = mlBench.checks.check(program, task);
    say("checks-summary", RULES.map((rule) => `${rule}: ${sentence(found[rule])}`).join(" · "));
    byId("checks-result").replaceChildren(table(task, type, found));
    showTokens(program, task);
  }

  function sentence({ missing, type }) {
    if (!missing.length && type) return "passes";
    const count = missing.length;
    const faults = [count && `${count} argument${count > 1 ? "s" : ""} missing`, !type && "not of the type"];
    return `fails (${faults.filter(Boolean).join(", ")})`;
  }

  function table(task, type, found) {
    const cell = (isGood, good, bad, ...rest) =>
      element(
        "td",
        {},
        element("span", { className: `mark ${isGood ? "good" : "bad"}` }, isGood ? `✓ ${good}` : `✗ ${bad}`),
        ...rest,
      );
    const row = (head, cells, className = "") =>
      element("tr", { className }, element("th", { scope: "row" }, ...head), ...cells);
    const rows = [...task.arguments].map(([name, { text }]) =>
      row(
        [
          element("code", {}, name),
          element("small", {}, text ? element("code", {}, text) : "without a value: the name counts"),
        ],
        RULES.map((rule) => cell(!found[rule].missing.includes(name), "found", "missing")),
      ),
    );
    const note = element("small", {}, "approximately");
    rows.push(
      row(
        ["type", element("small", {}, type)],
        RULES.map((rule) => cell(found[rule].type, "yes", "no", ...(rule === "strict" ? [note] : []))),
      ),
      row(
        ["static checks"],
        RULES.map((rule) => cell(!found[rule].missing.length && found[rule].type, "pass", "fail")),
        "total",
      ),
    );
    const heads = ["", ...RULES].map((text) => element(text ? "th" : "td", text ? { scope: "col" } : {}, text));
    return element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows));
  }

  function showTokens(program, task) {
    const isTooLong = mlBench.text.length(program) > mlBench.pythonTree.MAX_CHARACTERS;
    const tokens = isTooLong ? [] : mlBench.tokens.ofProgram(program, task.language, task.variables);
    const shown = tokens.slice(0, MOST_TOKENS).map((token) => element("li", {}, element("code", {}, token || "''")));
    if (tokens.length > MOST_TOKENS) shown.push(element("li", {}, `… and ${tokens.length - MOST_TOKENS} more`));
    if (!shown.length) shown.push(element("li", {}, isTooLong ? "nothing: the text is too long" : "nothing"));
    byId("tokens").replaceChildren(...shown);
  }

  function load(sample) {
    byId("arguments").value = sample.arguments;
    byId("prefix").value = sample.prefix_code;
    byId("program").value = sample.program;
    document.querySelector(`input[name="type"][value="${sample.type}"]`).checked = true;
    say("instruction", `${sample.task_id}: ${sample.instruction}`);
    update();
  }

  const choices = mlBench.samples.map((sample, index) => element("option", { value: String(index) }, sample.title));
  byId("sample").append(...choices);
  byId("sample").addEventListener("change", () => load(mlBench.samples[Number(byId("sample").value)]));
  load(mlBench.samples[0]);
  keepUpdated(byId("checks-form"), update);
})((globalThis.mlBench ??= {}));
