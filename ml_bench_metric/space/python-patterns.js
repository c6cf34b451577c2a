// The patterns of Python's `match` statement, read by a parser of python-statements.js.
(function (mlBench) {
  "use strict";

  const { node } = mlBench.pythonExpressions;

  /** Read the patterns of a `case`. */
  function patterns(parser) {
    const ends = () => parser.sees(":") || parser.sees("if");
    const found = parser.commaList(() => starred(parser), ends);
    if (found.kind === "Tuple") return node("MatchSequence", { patterns: found.parts.elts });
    if (found.kind === "MatchStar") parser.fail("a starred pattern on its own");
    return found;
  }

  function starred(parser) {
    return parser.accept("*") ? node("MatchStar", { name: captured(parser.name()) }) : pattern(parser);
  }

  const captured = (name) => (name === "_" ? null : name);

  function pattern(parser) {
    const alternatives = [closed(parser)];
    while (parser.accept("|")) alternatives.push(closed(parser));
    const found = alternatives.length > 1 ? node("MatchOr", { patterns: alternatives }) : alternatives[0];
    if (!parser.accept("as")) return found;
    const name = parser.name();
    if (name === "_") parser.fail("_ as a target");
    return node("MatchAs", { pattern: found, name });
  }

  function closed(parser) {
    const { type, value } = parser.token;
    if (type === "NUMBER" || parser.sees("-")) return number(parser);
    if (type === "STRING") {
      return node("MatchValue", { value: parser.strings() });
    }
    if (type === "NAME") return named(parser);
    if (type === "KEYWORD" && ["None", "True", "False"].includes(value)) {
      return { ...node("MatchSingleton", {}), constant: parser.atom() };
    }
    if (parser.accept("[")) return node("MatchSequence", { patterns: sequence(parser, "]") });
    if (parser.accept("(")) {
      const found = sequence(parser, ")");
      const isGroup = found.length === 1 && !parser.sees(",", -2) && found[0].kind !== "MatchStar";
      return isGroup ? found[0] : node("MatchSequence", { patterns: found });
    }
    if (parser.accept("{")) return mapping(parser);
    return parser.fail();
  }

  function sequence(parser, closing) {
    const found = [];
    while (!parser.accept(closing)) {
      found.push(starred(parser));
      if (!parser.accept(",")) {
        parser.expect(closing);
        if (found.length === 1 && closing === ")" && found[0].kind === "MatchStar") parser.fail();
        break;
      }
    }
    return found;
  }

  /** Read a number with its sign, or a complex one. */
  function number(parser) {
    const signed = () => {
      const isNegative = parser.accept("-");
      if (!parser.is("NUMBER")) parser.fail();
      const operand = parser.atom();
      return isNegative ? { ...node("UnaryOp", { operand }), sign: "-" } : operand;
    };
    const left = signed();
    if (!parser.seesAny("+", "-")) return node("MatchValue", { value: left });
    parser.index += 1;
    if (!parser.is("NUMBER")) parser.fail();
    const right = parser.atom();
    const isImaginary = (operand) => (operand.parts.operand ?? operand).parts.value.type === "complex";
    if (isImaginary(left) || !isImaginary(right)) parser.fail("no complex number");
    return node("MatchValue", { value: node("BinOp", { left, right }) });
  }

  /** Read a capture, a dotted value, or a class pattern. */
  function named(parser) {
    const first = parser.name();
    let value = node("Name", { id: first });
    while (parser.accept(".")) value = node("Attribute", { value, attr: parser.name() });
    if (parser.accept("(")) return classPattern(parser, value);
    if (value.kind === "Attribute") return node("MatchValue", { value });
    return node("MatchAs", { pattern: null, name: captured(first) });
  }

  function classPattern(parser, cls) {
    const found = { cls, patterns: [], kwd_attrs: [], kwd_patterns: [] };
    while (!parser.accept(")")) {
      if (parser.is("NAME") && parser.sees("=", 1)) {
        found.kwd_attrs.push(parser.name());
        parser.expect("=");
        found.kwd_patterns.push(pattern(parser));
      } else {
        if (found.kwd_attrs.length) parser.fail("a positional pattern after a keyword");
        found.patterns.push(pattern(parser));
      }
      if (!parser.accept(",")) {
        parser.expect(")");
        break;
      }
    }
    return node("MatchClass", found);
  }

  function mapping(parser) {
    const found = { keys: [], patterns: [], rest: null };
    while (!parser.accept("}")) {
      if (found.rest !== null) parser.fail("a pattern after **");
      if (parser.accept("**")) {
        found.rest = parser.name();
        if (found.rest === "_") parser.fail("**_ in a pattern");
      } else {
        const key = closed(parser);
        const isKey = key.kind === "MatchValue" || key.kind === "MatchSingleton";
        if (!isKey) parser.fail("no key of a pattern");
        found.keys.push(key.parts.value ?? key.constant);
        parser.expect(":");
        found.patterns.push(pattern(parser));
      }
      if (!parser.accept(",")) {
        parser.expect("}");
        break;
      }
    }
    return node("MatchMapping", found);
  }

  mlBench.pythonPatterns = { patterns };
})((globalThis.mlBench ??= {}));
