// Whether a text is Python, and what kind: the counterpart of `ml_bench_metric/syntax.py`.
(function (mlBench) {
  "use strict";

  /** Longer texts are not parsed. */
  const MAX_CHARACTERS = 100000;
  const PROGRAM_KINDS = new Set(["Import", "ImportFrom", "FunctionDef", "ClassDef", "Call"]);
  const IDLE = new Set(["Expr", "Pass"]);
  const STATEMENTS = new Set(
    (
      "FunctionDef ClassDef Return Delete Assign TypeAlias AugAssign AnnAssign For While If With Match Raise Try Assert " +
      "Import ImportFrom Global Nonlocal Expr Pass Break Continue"
    ).split(" "),
  );

  /** Return the syntax tree of a Python program; null where the text is none. */
  function pythonTree(text) {
    if (mlBench.text.length(text) > MAX_CHARACTERS) return null;
    try {
      return mlBench.pythonStatements.parse(text);
    } catch (error) {
      // A RangeError is a program nested too deeply for this browser, as for Python's own parser.
      if (error instanceof mlBench.pythonLexer.PythonError || error instanceof RangeError) return null;
      throw error;
    }
  }

  function* walk(tree) {
    const waiting = [tree];
    while (waiting.length) {
      const found = waiting.pop();
      yield found;
      for (const part of Object.values(found.parts)) {
        for (const value of Array.isArray(part) ? part : [part]) {
          if (value?.kind !== undefined) waiting.push(value);
        }
      }
    }
  }

  function some(tree, test) {
    for (const found of walk(tree)) {
      if (test(found.kind)) return true;
    }
    return false;
  }

  /** Whether a program holds more than names, constants, operators and `pass`. */
  function doesSomething(tree) {
    return some(tree, (kind) => kind === "Call" || kind === "Await" || (STATEMENTS.has(kind) && !IDLE.has(kind)));
  }

  /** Whether a text is Python and imports, defines or calls something. */
  function isPythonProgram(text) {
    const tree = pythonTree(text);
    return tree !== null && some(tree, (kind) => PROGRAM_KINDS.has(kind));
  }

  mlBench.pythonTree = { MAX_CHARACTERS, pythonTree, doesSomething, isPythonProgram };
})((globalThis.mlBench ??= {}));
