// The static checks of a program under both rules: the counterpart of the package `ml_bench_metric/checks`.
(function (mlBench) {
  "use strict";

  const { MAX_CHARACTERS, pythonTree, doesSomething, isPythonProgram } = mlBench.pythonTree;

  /**
   * Return {original, strict}, each {missing, type}: the names of the arguments that the program does not use, and
   * whether it is of the task's type.
   *
   * A task is {language, arguments, variables}: `bash` or `python`, and what arguments.js returns.
   */
  function check(program, task) {
    return {
      original: { missing: missingInOriginal(program, task), type: originalType(program, task.language) },
      strict: { missing: missingInStrict(program, task), type: strictType(program, task.language) },
    };
  }

  function missingInOriginal(program, task) {
    const text = program.toLowerCase();
    return [...task.arguments].filter(([, value]) => !text.includes(value.text.toLowerCase())).map(([name]) => name);
  }

  function originalType(program, language) {
    return (program.includes(".sh ") || program.includes(".py ")) === (language === "bash");
  }

  function missingInStrict(program, task) {
    if (isTooLong(program)) return [...task.arguments.keys()];
    const found = new mlBench.matching.Haystack(mlBench.tokens.ofProgram(program, task.language, task.variables));
    const isUsed = (name, value) => (value ? found.hasValue(value) : found.hasName(name));
    return [...task.arguments]
      .filter(([name, { text }]) => !isUsed(name, mlBench.text.strip(text)))
      .map(([name]) => name);
  }

  function strictType(program, language) {
    if (language === "python") {
      const tree = pythonTree(program);
      return tree !== null && doesSomething(tree);
    }
    if (isTooLong(program) || /^(?:```|~~~)/.test(mlBench.text.strip(program))) return false;
    const script = mlBench.shell.read(program);
    const hasCommand = script.commands.some(
      (command) => mlBench.prose.reading(command, script.functions) !== "sentence",
    );
    const isPython = isPythonProgram(program) && !mlBench.prose.feedsDocuments(script);
    return hasCommand && !isPython && mlBench.bashGrammar.accepts(program);
  }

  const isTooLong = (program) => mlBench.text.length(program) > MAX_CHARACTERS;

  mlBench.checks = { check };
})((globalThis.mlBench ??= {}));
