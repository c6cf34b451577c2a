// A place among the tokens of a Python program, and what can be asked there.
(function (mlBench) {
  "use strict";

  class Cursor {
    constructor(tokens) {
      this.tokens = tokens;
      this.index = 0;
    }

    get token() {
      return this.tokens[this.index];
    }

    fail(message = `'${this.token.value || this.token.type}' is not expected here`) {
      throw new mlBench.pythonLexer.PythonError(message);
    }

    /** Whether an operator or keyword stands at a distance. */
    sees(value, distance = 0) {
      const token = this.tokens[Math.min(this.index + distance, this.tokens.length - 1)];
      return (token.type === "OP" || token.type === "KEYWORD") && token.value === value;
    }

    seesAny(...values) {
      return values.some((value) => this.sees(value));
    }

    accept(value) {
      if (!this.sees(value)) return false;
      this.index += 1;
      return true;
    }

    expect(value) {
      if (!this.accept(value)) this.fail();
    }

    is(type) {
      return this.token.type === type;
    }

    name() {
      if (!this.is("NAME")) this.fail();
      this.index += 1;
      return this.tokens[this.index - 1].value;
    }

    /** Try one reading; where it fails, go back and return null. */
    attempt(reading) {
      const start = this.index;
      try {
        return reading();
      } catch (error) {
        if (!(error instanceof mlBench.pythonLexer.PythonError)) throw error;
        this.index = start;
        return null;
      }
    }
  }

  mlBench.pythonCursor = { Cursor };
})((globalThis.mlBench ??= {}));
