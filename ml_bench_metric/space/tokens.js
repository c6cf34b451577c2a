// What the tokens of a program are: the counterpart of `ml_bench_metric/checks/tokens.py`.
(function (mlBench) {
  "use strict";

  const DEEPEST = 5;
  const LONGEST_INTEGER = 2n ** 4096n;
  const PYTHON = /^(?:.*\/)?i?python[\p{Nd}.]*$/u;
  const SHELL = /^(?:.*\/)?(?:bash|sh|dash|zsh|ksh)$/u;
  const COMMAND_OPTION = /^-[a-zA-Z]*c$/;
  const PATH_CALLS = new Set(["join", "joinpath", "Path", "PurePath", "PosixPath", "PurePosixPath"]);

  /** Return the tokens of a program; `variables` (a Map) are those that the task gives it. */
  function ofProgram(program, language, variables) {
    const tree = language === "python" ? mlBench.pythonTree.pythonTree(program) : null;
    return [...(tree === null ? ofBash(program, variables, 0) : ofPython(tree))];
  }

  function* ofBash(program, variables, depth) {
    for (const command of mlBench.shell.read(program, variables).commands) {
      const words = command.words.map((word) => word.text);
      const head = words[command.assignments] ?? "";
      if (head === ":") continue;
      let interpreter = "";
      for (const [position, word] of words.entries()) {
        const runs = interpreter && position > 0 && COMMAND_OPTION.test(words[position - 1]);
        if (depth < DEEPEST && (runs || (head === "eval" && word !== head))) {
          yield* ofInner(word, variables, depth + 1, interpreter === "python");
        } else {
          yield word;
        }
        if (!word.startsWith("-")) interpreter = PYTHON.test(word) ? "python" : SHELL.test(word) ? "bash" : "";
      }
      for (const document of depth < DEEPEST ? command.documents : []) {
        yield* ofInner(document, variables, depth + 1, mlBench.pythonTree.isPythonProgram(document));
      }
    }
  }

  function* ofInner(program, variables, depth, isPython) {
    const tree = isPython ? mlBench.pythonTree.pythonTree(program) : null;
    yield* tree === null ? ofBash(program, variables, depth) : ofPython(tree);
  }

  function* ofPython(tree) {
    const waiting = [tree];
    while (waiting.length) {
      const found = waiting.pop();
      const number = negative(found);
      if (typeof found === "string") {
        yield found;
      } else if (found.kind === "Constant") {
        yield* ofConstant(found.parts.value, "");
      } else if (number !== null) {
        yield* ofConstant(number, "-");
      } else if (!(found.kind === "Expr" && found.parts.value.kind === "Constant")) {
        const path = pathOf(found);
        if (path !== null) yield path;
        for (const part of partsOf(found).reverse()) waiting.push(part);
      }
    }
  }

  function partsOf({ kind, parts }) {
    if (kind === "Attribute") return dotted(parts);
    const found =
      kind === "Dict" ? parts.keys.flatMap((key, index) => [key, parts.values[index]]) : Object.values(parts).flat();
    return found.filter((part) => part !== null);
  }

  function dotted({ value, attr }) {
    const names = [attr];
    let inner = value;
    while (inner.kind === "Attribute") {
      names.unshift(inner.parts.attr);
      inner = inner.parts.value;
    }
    return inner.kind === "Name" ? [[inner.parts.id, ...names].join(".")] : [inner, names.join(".")];
  }

  function negative({ kind, parts, sign }) {
    const isNegative = kind === "UnaryOp" && sign === "-" && parts.operand.kind === "Constant";
    return isNegative && ["int", "float"].includes(parts.operand.parts.value.type) ? parts.operand.parts.value : null;
  }

  function* ofConstant({ type, text }, sign) {
    if (type === "ellipsis" || (type === "int" && BigInt(text) >= LONGEST_INTEGER)) return;
    yield sign + text;
  }

  function pathOf({ kind, parts }) {
    if (kind !== "Call" || parts.args.length < 2) return null;
    const { func, args } = parts;
    const name = func.kind === "Attribute" ? func.parts.attr : func.kind === "Name" ? func.parts.id : "";
    const isText = (part) => part.kind === "Constant" && part.parts.value.type === "str";
    return PATH_CALLS.has(name) && args.every(isText) ? args.map((part) => part.parts.value.text).join("/") : null;
  }

  mlBench.tokens = { ofProgram };
})((globalThis.mlBench ??= {}));
