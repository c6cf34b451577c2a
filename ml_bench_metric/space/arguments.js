// What a task asks for: column `arguments` (a Python dict literal) and the exports of column `prefix_code`. The
// counterpart of `ml_bench_dataset.parse_arguments` and `Task.variables`.
(function (mlBench) {
  "use strict";

  class InputError extends Error {}

  const { strip } = mlBench.text;
  const NAME = /^[A-Za-z_]\w*$/;
  // References to variables, then what only a shell in the image could tell.
  const REFERENCE = /\$\{(\w+)\}|\$(\w+)|\$[({]|`/g;
  const TYPES = { bytes: "bytes", bool: "True or False", none: "None", complex: "a complex number", ellipsis: "..." };

  /**
   * Return the arguments of a dict literal: a Map of names to {text, isText}, the text that of Python's `str`.
   * Throws an InputError that says what is wrong.
   */
  function parseArguments(literal) {
    const dict = parseLiteral(strip(literal));
    const found = new Map();
    dict.parts.keys.forEach((key, index) => {
      const name = constantOf(key);
      if (name?.type !== "str") throw new InputError("Each name must be a text in quotes, such as 'epochs'.");
      const value = constantOf(dict.parts.values[index]);
      if (!["str", "int", "float"].includes(value?.type)) {
        throw new InputError(
          `The value of '${name.text}' is ${TYPES[value?.type] ?? "something else"}; it must be a text or a number.`,
        );
      }
      if (value.type === "float" && value.text.includes("inf"))
        throw new InputError(`The value of '${name.text}' is not finite.`);
      if (found.has(name.text)) throw new InputError(`The name '${name.text}' is there twice.`);
      found.set(name.text, { text: value.text, isText: value.type === "str" });
    });
    return found;
  }

  function parseLiteral(literal) {
    if (!literal) throw new InputError("Give a Python dict literal; {} where the task has no arguments.");
    // An expression is what is valid on its own (no backslash at the end) and in brackets (no semicolon).
    const isExpression = mlBench.pythonTree.pythonTree(`(${literal}\n)`) !== null;
    const statement = isExpression ? mlBench.pythonTree.pythonTree(literal)?.parts.body[0] : undefined;
    const value = statement?.kind === "Expr" ? statement.parts.value : null;
    if (value?.kind !== "Dict") throw new InputError("This is not a Python dict literal such as {'epochs': 5}.");
    return value;
  }

  /** The constant of a node, with its sign; null where the node is none. */
  function constantOf(node) {
    if (node?.kind === "Constant") return node.parts.value;
    if (node?.kind !== "UnaryOp" || !["+", "-"].includes(node.sign)) return null;
    const inner = node.parts.operand.kind === "Constant" ? node.parts.operand.parts.value : null;
    if (!["int", "float"].includes(inner?.type)) return null;
    const isNegative = node.sign === "-" && inner.text !== "0";
    return { type: inner.type, text: (isNegative ? "-" : "") + inner.text };
  }

  /** Return the variables (a Map) that the `export NAME=value` lines of `prefix_code` set. */
  function exportedVariables(code) {
    const found = new Map();
    for (const line of code.split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/)) {
      const command = strip(strip(line).replace(/^\$ /, ""));
      if (!command.startsWith("export ")) continue;
      let before = ";";
      let exports = false;
      for (const word of shellWords(command)) {
        if ([";", "&&"].includes(before)) exports = word === "export";
        else if (/^[;&|]+$/.test(word) && ![";", "&&"].includes(word)) break;
        else if (exports) setVariable(found, word);
        before = word;
      }
    }
    return found;
  }

  /** Set the variable of a word `NAME=value`; remove it where its value hangs on what is not known. */
  function setVariable(found, word) {
    const equals = word.indexOf("=");
    const name = word.slice(0, Math.max(0, equals));
    if (!NAME.test(name)) return;
    const value = word.slice(equals + 1);
    const names = [...value.matchAll(REFERENCE)].map((match) => match[1] ?? match[2]);
    if (names.every((known) => found.has(known)))
      found.set(
        name,
        value.replace(REFERENCE, (_, braced, plain) => found.get(braced ?? plain)),
      );
    else found.delete(name);
  }

  /**
   * The words of a line, and the operators of `;&|`, as Python's `shlex` with these `punctuation_chars` has them; none
   * where a quote has no partner.
   */
  function shellWords(line) {
    const found = [];
    let word = null;
    for (let at = 0; at < line.length; at += 1) {
      const char = line[at];
      if (" \t\r\n".includes(char)) {
        if (word !== null) found.push(word);
        word = null;
      } else if (";&|".includes(char)) {
        if (word !== null) found.push(word);
        word = null;
        const start = at;
        while (at + 1 < line.length && ";&|".includes(line[at + 1])) at += 1;
        found.push(line.slice(start, at + 1));
      } else if (char === "#") {
        break;
      } else if (char === "\\") {
        at += 1;
        if (at >= line.length) return [];
        word = (word ?? "") + line[at];
      } else if (char === "'" || char === '"') {
        word ??= "";
        for (at += 1; line[at] !== char; at += 1) {
          if (at >= line.length) return [];
          const isEscape = char === '"' && line[at] === "\\" && ['"', "\\"].includes(line[at + 1]);
          if (isEscape) at += 1;
          word += line[at];
        }
      } else {
        word = (word ?? "") + char;
      }
    }
    if (word !== null) found.push(word);
    return found;
  }

  mlBench.arguments = { InputError, parseArguments, exportedVariables };
})((globalThis.mlBench ??= {}));
