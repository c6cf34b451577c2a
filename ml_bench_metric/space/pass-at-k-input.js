// Reading what people paste into the Pass@k calculator. Errors are thrown as an `InputError` that names the line.
(function (mlBench) {
  "use strict";

  const { InputError } = mlBench.arguments;
  const MOST_TASKS = 2000;
  const MOST_KS = 10;
  const MOST_CANDIDATES = 1000000;
  const MOST_SHOWN = 3;
  const VERDICTS = new Map([
    ...["1", "p", "pass", "passed", "true", "✓"].map((word) => [word, true]),
    ...["0", "f", "fail", "failed", "false", "✗"].map((word) => [word, false]),
  ]);

  /** Return a whole number of at least `least`; throw an InputError that names the field. */
  function wholeNumber(text, name, least) {
    const spelling = text.trim();
    if (!/^\d+$/.test(spelling) || Number(spelling) < least || Number(spelling) > MOST_CANDIDATES) {
      throw new InputError(`${name} must be a whole number from ${least} to ${MOST_CANDIDATES.toLocaleString("en")}.`);
    }
    return Number(spelling);
  }

  /** Return the values of k in a text, ascending and each once. */
  function parseKs(text) {
    const spellings = text.split(/[\s,;]+/).filter(Boolean);
    if (!spellings.length) throw new InputError("Give one or more values of k, such as 1, 2, 5.");
    const ks = new Set(spellings.map((spelling) => wholeNumber(spelling, `k ('${spelling}')`, 1)));
    if (ks.size > MOST_KS) throw new InputError(`This page takes up to ${MOST_KS} values of k.`);
    return [...ks].sort((a, b) => a - b);
  }

  /**
   * Return the tasks of a pasted text: {n, c, verdicts}, verdicts being null for counts.
   *
   * Format `counts`: a line `[name] n c` per task. Format `lists`: a line `[name:] verdict verdict ...` per task, in the
   * order of the candidates; `1 0 0`, `PFF`, `pass, fail, fail` and `[true, false]` are read.
   */
  function parseTasks(text, format) {
    const tasks = [];
    const faults = [];
    text.split(/\r\n|\r|\n/).forEach((line, index) => {
      if (!line.trim()) return;
      try {
        tasks.push(format === "lists" ? taskOfList(line) : taskOfCounts(line));
      } catch (error) {
        if (!(error instanceof InputError)) throw error;
        faults.push(`Line ${index + 1}: ${error.message}`);
      }
    });
    if (faults.length > MOST_SHOWN) faults.splice(MOST_SHOWN, Infinity, `… and ${faults.length - MOST_SHOWN} more.`);
    if (faults.length) throw new InputError(faults.join("\n"));
    if (!tasks.length) throw new InputError("Give at least one task, one per line.");
    if (tasks.length > MOST_TASKS)
      throw new InputError(`There are ${tasks.length} tasks; this page takes up to ${MOST_TASKS}.`);
    return tasks;
  }

  function taskOfCounts(line) {
    const fields = line.split(/[\s,;]+/).filter(Boolean);
    if (fields.length < 2) throw new InputError("give n and c, such as: 5 2");
    const [n, c] = fields.slice(-2).map((field, index) => wholeNumber(field, `${"nc"[index]} ('${field}')`, 0));
    if (c > n) throw new InputError(`c is ${c}, more than n, which is ${n}.`);
    return { n, c, verdicts: null };
  }

  function taskOfList(line) {
    const list = line.slice(line.lastIndexOf(":") + 1);
    const words = list
      .replace(/[[\]]/g, " ")
      .split(/[\s,;]+/)
      .filter(Boolean);
    const verdicts = words.flatMap((word) => {
      const spelling = word.toLowerCase();
      if (VERDICTS.has(spelling)) return [VERDICTS.get(spelling)];
      const letters = [...spelling];
      if (!letters.every((letter) => VERDICTS.has(letter))) {
        throw new InputError(
          `'${word}' is no verdict; write 1 or 0, P or F, pass or fail. A name needs a colon behind it.`,
        );
      }
      return letters.map((letter) => VERDICTS.get(letter));
    });
    if (verdicts.length > MOST_CANDIDATES) throw new InputError("that is too many verdicts.");
    return { n: verdicts.length, c: verdicts.filter(Boolean).length, verdicts };
  }

  mlBench.passAtKInput = { wholeNumber, parseKs, parseTasks };
})((globalThis.mlBench ??= {}));
