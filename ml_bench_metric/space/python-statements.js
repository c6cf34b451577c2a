// The statements of Python as syntax trees, see python-expressions.js.
(function (mlBench) {
  "use strict";

  const { Expressions, node } = mlBench.pythonExpressions;
  const AUGMENTED = new Set(["+=", "-=", "*=", "/=", "//=", "%=", "@=", "&=", "|=", "^=", ">>=", "<<=", "**="]);
  const COMPOUND = {
    if: "ifStatement",
    while: "whileStatement",
    for: "forStatement",
    try: "tryStatement",
    with: "withStatement",
    def: "definition",
    class: "classDefinition",
    async: "asyncStatement",
    "@": "decorated",
  };

  class Program extends Expressions {
    module() {
      const body = [];
      while (!this.is("END")) body.push(...this.statement());
      return node("Module", { body });
    }

    /** Read a statement, or several on one line. */
    statement() {
      for (const [start, reading] of Object.entries(COMPOUND)) {
        if (this.sees(start)) return [this[reading]()];
      }
      const match = this.is("NAME") && this.token.value === "match" ? this.attempt(() => this.matchHead()) : null;
      if (match !== null) return [this.matchStatement(match)];
      return this.simpleStatements();
    }

    simpleStatements() {
      const found = [this.simpleStatement()];
      while (this.accept(";") && !this.is("NEWLINE")) found.push(this.simpleStatement());
      if (!this.is("NEWLINE")) this.fail();
      this.index += 1;
      return found;
    }

    block() {
      this.expect(":");
      if (!this.is("NEWLINE")) return this.simpleStatements();
      this.index += 1;
      this.enter();
      const body = [];
      while (!this.is("DEDENT")) body.push(...this.statement());
      this.index += 1;
      return body;
    }

    enter() {
      if (!this.is("INDENT")) this.fail("an indented block is missing");
      this.index += 1;
    }

    simpleStatement() {
      const { type, value } = this.token;
      if (type === "KEYWORD") {
        const start = this.index;
        this.index += 1;
        const found = this.keywordStatement(value);
        if (found !== null) return found;
        this.index = start;
      }
      if (type === "NAME" && value === "type" && this.tokens[this.index + 1].type === "NAME") return this.typeAlias();
      return this.assignment();
    }

    /** Read the statement behind its keyword; null where the keyword starts none. */
    keywordStatement(keyword) {
      const ends = () => this.is("NEWLINE") || this.sees(";");
      switch (keyword) {
        case "pass":
        case "break":
        case "continue":
          return node(keyword[0].toUpperCase() + keyword.slice(1), {});
        case "return":
          return node("Return", { value: ends() ? null : this.starExpressions() });
        case "raise": {
          const exc = ends() ? null : this.expression();
          return node("Raise", { exc, cause: exc !== null && this.accept("from") ? this.expression() : null });
        }
        case "global":
        case "nonlocal":
          return node(keyword === "global" ? "Global" : "Nonlocal", { names: this.separated(() => this.name()) });
        case "del": {
          const targets = this.commaList(() => this.primary(), ends);
          this.checkedTarget(targets, true);
          return node("Delete", { targets: [targets] });
        }
        case "assert":
          return node("Assert", { test: this.expression(), msg: this.accept(",") ? this.expression() : null });
        case "import":
          return node("Import", { names: this.separated(() => this.alias(() => this.dottedName())) });
        case "from":
          return this.importFrom();
        default:
          return null;
      }
    }

    separated(element) {
      const found = [element()];
      while (this.accept(",")) found.push(element());
      return found;
    }

    dottedName() {
      let name = this.name();
      while (this.accept(".")) name += `.${this.name()}`;
      return name;
    }

    alias(reading) {
      const name = reading();
      return node("alias", { name, asname: this.accept("as") ? this.name() : null });
    }

    importFrom() {
      const start = this.index;
      while (this.seesAny(".", "...")) this.index += 1;
      const module = this.index > start && this.sees("import") ? null : this.dottedName();
      this.expect("import");
      if (this.accept("*")) return node("ImportFrom", { module, names: [node("alias", { name: "*", asname: null })] });
      const hasBrackets = this.accept("(");
      const names = [this.alias(() => this.name())];
      while (this.accept(",")) {
        if (hasBrackets && this.sees(")")) break;
        names.push(this.alias(() => this.name()));
      }
      if (hasBrackets) this.expect(")");
      return node("ImportFrom", { module, names });
    }

    typeAlias() {
      this.index += 1;
      const name = node("Name", { id: this.name() });
      const typeParams = this.typeParameters();
      this.expect("=");
      return node("TypeAlias", { name, type_params: typeParams, value: this.expression() });
    }

    assignment() {
      const first = this.annotatedValue();
      const isSingle = ["Name", "Attribute", "Subscript"].includes(first.kind);
      if (this.sees(":")) {
        if (!isSingle) this.fail("no place for an annotation");
        this.expect(":");
        const annotation = this.expression();
        return node("AnnAssign", { target: first, annotation, value: this.accept("=") ? this.annotatedValue() : null });
      }
      if (this.is("OP") && AUGMENTED.has(this.token.value)) {
        if (!isSingle) this.fail("something is assigned to that cannot be");
        this.index += 1;
        return node("AugAssign", { target: first, value: this.annotatedValue() });
      }
      const values = [first];
      while (this.accept("=")) {
        this.checkedTarget(values.at(-1));
        values.push(this.annotatedValue());
      }
      return values.length === 1
        ? node("Expr", { value: first })
        : node("Assign", { targets: values.slice(0, -1), value: values.at(-1) });
    }

    ifStatement() {
      this.index += 1;
      const test = this.namedExpression();
      const body = this.block();
      const orelse = this.sees("elif") ? [this.ifStatement()] : this.elseBlock();
      return node("If", { test, body, orelse });
    }

    elseBlock() {
      return this.accept("else") ? this.block() : [];
    }

    whileStatement() {
      this.expect("while");
      return node("While", { test: this.namedExpression(), body: this.block(), orelse: this.elseBlock() });
    }

    forStatement() {
      this.expect("for");
      const target = this.targets();
      this.expect("in");
      return node("For", { target, iter: this.starExpressions(), body: this.block(), orelse: this.elseBlock() });
    }

    asyncStatement() {
      this.expect("async");
      for (const start of ["def", "for", "with"]) {
        if (this.sees(start)) return this[COMPOUND[start]]();
      }
      return this.fail();
    }

    withStatement() {
      this.expect("with");
      const item = () => {
        const context = this.expression();
        if (!this.accept("as")) return node("withitem", { context_expr: context, optional_vars: null });
        const target = this.starExpression(() => this.binary(0));
        if (!this.seesAny(",", ")", ":")) this.fail();
        return node("withitem", { context_expr: context, optional_vars: this.checkedTarget(target) });
      };
      const inBrackets = () => {
        this.expect("(");
        const items = [item()];
        while (this.accept(",") && !this.sees(")")) items.push(item());
        this.expect(")");
        if (!this.sees(":")) this.fail();
        return items;
      };
      const items = this.attempt(inBrackets) ?? this.separated(item);
      return node("With", { items, body: this.block() });
    }

    tryStatement() {
      this.expect("try");
      const body = this.block();
      const handlers = [];
      let isGroup = null;
      while (this.accept("except")) {
        const hasStar = this.accept("*");
        if (isGroup !== null && isGroup !== hasStar) this.fail("except and except* in one try");
        isGroup = hasStar;
        const type = !hasStar && this.sees(":") ? null : this.expression();
        const name = type !== null && this.accept("as") ? this.name() : null;
        handlers.push(node("ExceptHandler", { type, name, body: this.block() }));
      }
      const orelse = handlers.length ? this.elseBlock() : [];
      const finalbody = this.accept("finally") ? this.block() : [];
      if (!handlers.length && !finalbody.length) this.fail("a try without except and finally");
      return node("Try", { body, handlers, orelse, finalbody });
    }

    decorated() {
      const decorators = [];
      while (this.accept("@")) {
        decorators.push(this.namedExpression());
        if (!this.is("NEWLINE")) this.fail();
        this.index += 1;
      }
      if (this.sees("class")) return this.classDefinition(decorators);
      if (this.sees("async") && this.sees("def", 1)) this.index += 1;
      return this.definition(decorators);
    }

    definition(decorators = []) {
      this.expect("def");
      const name = this.name();
      const typeParams = this.typeParameters();
      this.expect("(");
      const args = this.parameters(")", true);
      this.expect(")");
      const returns = this.accept("->") ? this.expression() : null;
      const body = this.block();
      return node("FunctionDef", { name, args, body, decorator_list: decorators, returns, type_params: typeParams });
    }

    classDefinition(decorators = []) {
      this.expect("class");
      const name = this.name();
      const typeParams = this.typeParameters();
      const { args, keywords } = this.accept("(") ? this.callArguments() : { args: [], keywords: [] };
      const body = this.block();
      return node("ClassDef", {
        name,
        bases: args,
        keywords,
        body,
        decorator_list: decorators,
        type_params: typeParams,
      });
    }

    typeParameters() {
      const found = [];
      if (!this.accept("[")) return found;
      do {
        const stars = this.accept("**") ? "ParamSpec" : this.accept("*") ? "TypeVarTuple" : "TypeVar";
        const name = this.name();
        const bound = stars === "TypeVar" && this.accept(":") ? this.expression() : null;
        const otherwise = () =>
          stars === "TypeVarTuple" ? this.starExpression(() => this.expression()) : this.expression();
        found.push(node(stars, { name, bound, default_value: this.accept("=") ? otherwise() : null }));
      } while (this.accept(",") && !this.sees("]"));
      this.expect("]");
      return found;
    }

    /** Read `match SUBJECT:` up to its first `case`; what looks otherwise is no match statement. */
    matchHead() {
      this.index += 1;
      const subject = this.commaList(
        () => this.starExpression(() => this.namedExpression()),
        () => this.endsExpressions(),
      );
      if (subject.kind === "Starred") this.fail();
      this.expect(":");
      if (!this.is("NEWLINE")) this.fail();
      this.index += 1;
      this.enter();
      if (!this.seesCase()) this.fail();
      return subject;
    }

    seesCase() {
      return this.is("NAME") && this.token.value === "case";
    }

    matchStatement(subject) {
      const cases = [];
      while (!this.is("DEDENT")) {
        if (!this.seesCase()) this.fail();
        this.index += 1;
        const pattern = mlBench.pythonPatterns.patterns(this);
        const guard = this.accept("if") ? this.namedExpression() : null;
        cases.push(node("match_case", { pattern, guard, body: this.block() }));
      }
      this.index += 1;
      return node("Match", { subject, cases });
    }
  }

  /** Return the syntax tree of a program. Throws a `PythonError`, or a RangeError where it is nested too deeply. */
  function parse(program) {
    return new Program(mlBench.pythonLexer.tokens(program)).module();
  }

  mlBench.pythonStatements = { parse };
})((globalThis.mlBench ??= {}));
