// The expressions of Python as syntax trees. A node is {kind, parts}; kinds, parts and their order are those of
// Python's module `ast`, without the parts that hold no name and no constant (contexts, operators, flags).
(function (mlBench) {
  "use strict";

  const node = (kind, parts) => ({ kind, parts });
  const COMPARISONS = new Set(["<", ">", "==", ">=", "<=", "!=", "in", "is"]);
  /** Binary operators by how tightly they bind. */
  const BINARY = [["|"], ["^"], ["&"], ["<<", ">>"], ["+", "-"], ["*", "/", "//", "%", "@"]];
  const TARGETS = new Set(["Name", "Attribute", "Subscript"]);

  class Expressions extends mlBench.pythonCursor.Cursor {
    /** Read elements with commas between them: the element alone, or a tuple. */
    commaList(element, ends) {
      const first = element();
      if (!this.sees(",")) return first;
      const elements = [first];
      while (this.accept(",") && !ends()) elements.push(element());
      return node("Tuple", { elts: elements });
    }

    endsExpressions() {
      return ["NEWLINE", "END"].includes(this.token.type) || this.seesAny(")", "]", "}", "=", ":", ";", "in");
    }

    starExpressions() {
      return this.commaList(
        () => this.starExpression(() => this.expression()),
        () => this.endsExpressions(),
      );
    }

    starExpression(otherwise) {
      return this.accept("*") ? node("Starred", { value: this.binary(0) }) : otherwise();
    }

    annotatedValue() {
      return this.sees("yield") ? this.yieldExpression() : this.starExpressions();
    }

    yieldExpression() {
      this.expect("yield");
      if (this.accept("from")) return node("YieldFrom", { value: this.expression() });
      return node("Yield", { value: this.endsExpressions() ? null : this.starExpressions() });
    }

    seesNamed() {
      return this.is("NAME") && this.sees(":=", 1);
    }

    namedExpression() {
      if (this.seesNamed()) {
        const target = node("Name", { id: this.name() });
        this.expect(":=");
        return node("NamedExpr", { target, value: this.expression() });
      }
      return this.expression();
    }

    expression() {
      if (this.sees("lambda")) return this.lambda();
      const body = this.disjunction();
      if (!this.accept("if")) return body;
      const test = this.disjunction();
      this.expect("else");
      return node("IfExp", { test, body, orelse: this.expression() });
    }

    lambda() {
      this.expect("lambda");
      const args = this.parameters(":", false);
      this.expect(":");
      return node("Lambda", { args, body: this.expression() });
    }

    disjunction() {
      return this.boolean("or", () => this.boolean("and", () => this.inversion()));
    }

    boolean(operator, operand) {
      const values = [operand()];
      while (this.accept(operator)) values.push(operand());
      return values.length > 1 ? node("BoolOp", { values }) : values[0];
    }

    inversion() {
      return this.accept("not") ? node("UnaryOp", { operand: this.inversion() }) : this.comparison();
    }

    comparison() {
      const left = this.binary(0);
      const comparators = [];
      for (;;) {
        if (this.sees("not") && this.sees("in", 1)) this.index += 2;
        else if (this.token.type !== "NUMBER" && COMPARISONS.has(this.token.value) && this.sees(this.token.value)) {
          this.index += 1;
          if (this.tokens[this.index - 1].value === "is") this.accept("not");
        } else break;
        comparators.push(this.binary(0));
      }
      return comparators.length ? node("Compare", { left, comparators }) : left;
    }

    binary(level) {
      if (level === BINARY.length) return this.factor();
      let left = this.binary(level + 1);
      while (this.seesAny(...BINARY[level])) {
        this.index += 1;
        left = node("BinOp", { left, right: this.binary(level + 1) });
      }
      return left;
    }

    factor() {
      if (this.seesAny("+", "-", "~")) {
        this.index += 1;
        const sign = this.tokens[this.index - 1].value;
        return { ...node("UnaryOp", { operand: this.factor() }), sign };
      }
      const base = this.accept("await") ? node("Await", { value: this.primary() }) : this.primary();
      return this.accept("**") ? node("BinOp", { left: base, right: this.factor() }) : base;
    }

    primary() {
      let value = this.atom();
      for (;;) {
        if (this.accept(".")) value = node("Attribute", { value, attr: this.name() });
        else if (this.accept("(")) value = node("Call", { func: value, ...this.callArguments() });
        else if (this.accept("[")) value = node("Subscript", { value, slice: this.slices() });
        else return value;
      }
    }

    slices() {
      const slice = this.commaList(
        () => this.starExpression(() => this.slice()),
        () => this.sees("]"),
      );
      this.expect("]");
      return slice;
    }

    slice() {
      const bound = () => (this.seesAny(":", ",", "]") ? null : this.expression());
      if (this.seesNamed()) return this.namedExpression();
      const lower = this.sees(":") ? null : this.expression();
      if (!this.accept(":")) return lower;
      const upper = bound();
      return node("Slice", { lower, upper, step: this.accept(":") ? bound() : null });
    }

    /** Read the arguments of a call up to and with its `)`. */
    callArguments() {
      const args = [];
      const keywords = [];
      let hasUnpacking = false;
      while (!this.accept(")")) {
        if (this.accept("**")) {
          keywords.push(node("keyword", { arg: null, value: this.expression() }));
          hasUnpacking = true;
        } else if (this.accept("*")) {
          if (hasUnpacking) this.fail("* after ** in a call");
          args.push(node("Starred", { value: this.expression() }));
        } else if (this.is("NAME") && this.sees("=", 1)) {
          const arg = this.name();
          this.expect("=");
          keywords.push(node("keyword", { arg, value: this.expression() }));
        } else {
          if (keywords.length) this.fail("a positional argument after a keyword");
          const value = this.namedExpression();
          if (this.seesAny("for", "async")) {
            args.push(node("GeneratorExp", { elt: value, generators: this.comprehension() }));
            if (args.length > 1) this.fail("a generator expression needs brackets");
            this.expect(")");
            break;
          }
          args.push(value);
        }
        if (!this.accept(",")) {
          this.expect(")");
          break;
        }
      }
      return { args, keywords };
    }

    comprehension() {
      const generators = [];
      while (this.seesAny("for", "async")) {
        this.accept("async");
        this.expect("for");
        const target = this.targets();
        this.expect("in");
        const iter = this.disjunction();
        const ifs = [];
        while (this.accept("if")) ifs.push(this.disjunction());
        generators.push(node("comprehension", { target, iter, ifs }));
      }
      return generators;
    }

    /** Read the targets of `for`, which end before `in`. */
    targets() {
      const target = this.commaList(
        () => this.starExpression(() => this.binary(0)),
        () => this.endsExpressions(),
      );
      return this.checkedTarget(target);
    }

    /** Return a node that can be assigned to; with `isDeleted`, one that `del` takes. */
    checkedTarget(target, isDeleted = false) {
      const { kind, parts } = target;
      const isList = kind === "Tuple" || kind === "List";
      if (isList) parts.elts.forEach((element) => this.checkedTarget(element, isDeleted));
      else if (kind === "Starred" && !isDeleted && parts.value.kind !== "Starred") this.checkedTarget(parts.value);
      else if (!TARGETS.has(kind)) this.fail("something is assigned to that cannot be");
      return target;
    }

    atom() {
      const { type, value } = this.token;
      if (type === "STRING") return this.strings();
      this.index += 1;
      if (type === "NAME") return node("Name", { id: value });
      if (type === "NUMBER") return node("Constant", { value });
      if (type === "KEYWORD" && ["None", "True", "False"].includes(value)) {
        return node("Constant", { value: { type: value === "None" ? "none" : "bool", text: value } });
      }
      if (type === "OP") {
        if (value === "...") return node("Constant", { value: { type: "ellipsis", text: value } });
        if (value === "(") return this.group();
        if (value === "[") return this.display("]", "List", "ListComp");
        if (value === "{") return this.braces();
      }
      this.index -= 1;
      return this.fail();
    }

    group() {
      if (this.sees("yield")) {
        const inner = this.yieldExpression();
        this.expect(")");
        return inner;
      }
      const { kind, parts } = this.display(")", "Tuple", "GeneratorExp");
      const isGroup = kind === "Tuple" && parts.elts.length === 1 && !this.sees(",", -2);
      if (isGroup && parts.elts[0].kind === "Starred") this.fail("a starred expression in brackets");
      return isGroup ? parts.elts[0] : node(kind, parts);
    }

    /** Read a list, set, tuple or comprehension behind its opening bracket, or behind its first element. */
    display(closing, kind, comprehension, first) {
      const elts = [];
      let known = first;
      while (known !== undefined || !this.accept(closing)) {
        elts.push(known ?? this.starExpression(() => this.namedExpression()));
        known = undefined;
        if (this.seesAny("for", "async")) {
          if (elts.length > 1 || elts[0].kind === "Starred") this.fail();
          const generators = this.comprehension();
          this.expect(closing);
          return node(comprehension, { elt: elts[0], generators });
        }
        if (!this.accept(",")) {
          this.expect(closing);
          break;
        }
      }
      return node(kind, { elts });
    }

    braces() {
      if (this.seesAny("}", "**")) return this.dict();
      const isKey = !this.sees("*") && !this.seesNamed();
      const first = this.starExpression(() => this.namedExpression());
      return isKey && this.sees(":") ? this.dict(first) : this.display("}", "Set", "SetComp", first);
    }

    /** Read a dict behind its brace, or behind its first key. */
    dict(first) {
      const keys = [];
      const values = [];
      while (!this.accept("}")) {
        if (this.accept("**")) {
          keys.push(null);
          values.push(this.binary(0));
        } else {
          keys.push(keys.length || first === undefined ? this.expression() : first);
          this.expect(":");
          values.push(this.expression());
          if (this.seesAny("for", "async")) {
            if (keys.length > 1) this.fail();
            const generators = this.comprehension();
            this.expect("}");
            return node("DictComp", { key: keys[0], value: values[0], generators });
          }
        }
        if (!this.accept(",")) {
          this.expect("}");
          break;
        }
      }
      return node("Dict", { keys, values });
    }

    /** Read strings that stand side by side: one constant, or one f-string. */
    strings() {
      const parts = [];
      let isFormatted = false;
      const isBytes = this.token.value.isBytes;
      while (this.is("STRING")) {
        const string = this.token.value;
        if (string.isBytes !== isBytes) this.fail("bytes and text side by side");
        isFormatted ||= string.isFormatted;
        parts.push(...string.parts);
        this.index += 1;
      }
      if (!isFormatted) return node("Constant", { value: { type: isBytes ? "bytes" : "str", text: parts.join("") } });
      return this.joined(parts);
    }

    joined(parts) {
      const values = [];
      let text = "";
      const cut = () => {
        if (text) values.push(node("Constant", { value: { type: "str", text } }));
        text = "";
      };
      for (const part of parts) {
        if (typeof part === "string") {
          text += part;
          continue;
        }
        cut();
        const inner = new this.constructor(part.tokens);
        const value = inner.annotatedValue();
        if (!inner.is("END")) inner.fail();
        values.push(node("FormattedValue", { value, format_spec: part.spec && this.joined(part.spec) }));
      }
      cut();
      return node("JoinedStr", { values });
    }

    /** Read the parameters of a function, with annotations, or of a lambda, without, up to `closing`. */
    parameters(closing, isAnnotated) {
      const found = {
        posonlyargs: [],
        args: [],
        vararg: null,
        kwonlyargs: [],
        kw_defaults: [],
        kwarg: null,
        defaults: [],
      };
      const parameter = (isStarred = false) => {
        const arg = this.name();
        const hasAnnotation = isAnnotated && this.accept(":");
        const annotation = hasAnnotation
          ? isStarred
            ? this.starExpression(() => this.expression())
            : this.expression()
          : null;
        return node("arg", { arg, annotation });
      };
      let hasStar = false;
      while (!this.sees(closing)) {
        if (found.kwarg !== null) this.fail("a parameter after **");
        if (this.accept("**")) {
          if (hasStar && found.vararg === null && !found.kwonlyargs.length) this.fail("nothing is named after *");
          found.kwarg = parameter();
        } else if (this.accept("*")) {
          if (hasStar) this.fail("* twice");
          hasStar = true;
          if (this.is("NAME")) found.vararg = parameter(true);
        } else if (this.accept("/")) {
          if (hasStar || found.posonlyargs.length || !found.args.length) this.fail("a misplaced /");
          found.posonlyargs = found.args.splice(0);
        } else {
          const arg = parameter();
          const value = this.accept("=") ? this.expression() : null;
          if (hasStar) {
            found.kwonlyargs.push(arg);
            found.kw_defaults.push(value);
          } else {
            found.args.push(arg);
            if (value !== null) found.defaults.push(value);
            else if (found.defaults.length) this.fail("a parameter without a default after one with");
          }
        }
        if (!this.accept(",")) break;
      }
      if (hasStar && found.vararg === null && !found.kwonlyargs.length) this.fail("nothing is named after *");
      return node("arguments", found);
    }
  }

  mlBench.pythonExpressions = { Expressions, node };
})((globalThis.mlBench ??= {}));
