// Telling commands from sentences: the counterpart of `reading` and `feeds_documents` of
// `ml_bench_metric/prose.py`.
(function (mlBench) {
  "use strict";

  const { ALNUM } = mlBench.text;
  const WORD = `${ALNUM}_`;
  const setOf = (text) => new Set(text.trim().split(/\s+/));
  const FUNCTION_WORDS = setOf(`
    a an the this that these those it its is are was were be been being i we you your he she they me us them my our
    their to of on at by about into as with from for not no nor so than too and or but if can cannot could will would
    shall should may might must do does don doesn did has have had here there which who whom whose what when where why
    how please sorry need sure using following below above also only just because however unable`);
  const SINGLE_LETTERS = setOf("a i");
  const OPENING = setOf("if then elif else while until do ! { time");
  const CLOSING = setOf("fi done esac }");
  const WRAPPERS = setOf("sudo nohup env exec command timeout nice xvfb-run");
  const INTERPRETER = /^(?:.*\/)?(?:(?:ipython|python|pypy)[\p{Nd}.]*|bash|sh|zsh|dash)$/u;
  const LAUNCHERS = setOf("torchrun accelerate deepspeed horovodrun mpirun srun");
  const PROGRAMS = setOf(`
    . : [ [[ alias apt apt-get awk basename cat cd chmod chown clear cmake conda cp curl cut declare df diff dirname
    docker du echo eval exit export ffmpeg find function gdown git grep gunzip gzip head huggingface-cli jupyter
    kaggle kill let ln local ls make mamba md5sum micromamba mkdir mktemp mv nvcc nvidia-smi paste pip pip3 pkill
    poetry popd printf ps pushd pwd pytest read readonly realpath rm rmdir rsync sed seq set sha256sum shift shopt
    sleep sort source ssh stat tail tar tee test touch tr trap true typeset ulimit umask uname uniq unset unzip uv
    virtualenv wait wc wget which xargs zip`);
  const SCRIPT = new RegExp(`^[${WORD}./~$\{}+\\-]+\\.(?:py|sh|bash)$`, "u");
  const PATH = new RegExp(`^(?:\\.{1,2}/|/|~/|\\$)[${WORD}./~$\{}+\\-]*$`, "u");
  const FLAG = new RegExp(`^--?[a-z][${WORD}\\-]*(?:=.*)?$`, "su");
  const NAME = new RegExp(`^[A-Za-z_][${WORD}.+\\-]*$`, "u");
  const OPTION_OF_WRAPPER = new RegExp(`^(?:-.*|\\p{Nd}.*|[${WORD}]+=.*)$`, "su");
  const PUNCTUATION = /^[,.:;!?()*"'`]+|[,.:;!?()*"'`]+$/g;
  const SENTENCE_END = /^[\p{L}\p{No}\p{Nl}]{2,}[)'"`*]*[.:!?][)'"`*]*$/u;

  const IS_ALPHA = /^\p{L}+$/u;

  /** Return what a command is: `unmistakable`, `command`, `unknown` or `sentence`. */
  function reading(command, functions) {
    const words = command.words.slice(command.assignments);
    let start = 0;
    while (start < words.length) {
      const { text, quoted } = words[start];
      if (WRAPPERS.has(text)) {
        start += 1;
        while (start < words.length && OPTION_OF_WRAPPER.test(words[start].text)) start += 1;
      } else if (OPENING.has(text) && !quoted) {
        start += 1;
      } else {
        return ofCommand(text, words.slice(start + 1), functions);
      }
    }
    return words.length && WRAPPERS.has(words[0].text) ? "sentence" : "command";
  }

  /** Whether a command gets a here-document. */
  function feedsDocuments({ commands, functions }) {
    return commands.some(
      (command) => command.documents.length && ["unmistakable", "command"].includes(reading(command, functions)),
    );
  }

  function ofCommand(head, words, functions) {
    if (CLOSING.has(head)) return "command";
    if (["for", "select", "case"].includes(head))
      return words.length < 2 || words[1].text === "in" ? "command" : "sentence";
    const flag = words.findIndex(({ text }) => text.startsWith("-") && mlBench.text.length(text) > 1);
    const beforeFlags = (flag < 0 ? words : words.slice(0, flag)).map((word) => (word.quoted ? "" : word.text));
    const proseWords = count(beforeFlags, FUNCTION_WORDS);
    const saysText = head === "echo" || head === "printf";
    const ends = words.length > 1 && !words.at(-1).quoted && SENTENCE_END.test(words.at(-1).text);
    if (!saysText && (proseWords > 1 || ends)) return "sentence";
    if (SCRIPT.test(head)) return "unmistakable";
    if (LAUNCHERS.has(head) || INTERPRETER.test(head)) {
      const hasVerb = LAUNCHERS.has(head) && words.length > 0 && NAME.test(words[0].text);
      return ofInterpreter(hasVerb ? words.slice(1) : words, proseWords);
    }
    if (FLAG.test(head))
      return proseWords || beforeFlags.filter((word) => IS_ALPHA.test(word)).length > 2 ? "sentence" : "command";
    if (functions.has(head)) return "command";
    if (!saysText && proseWords > count(beforeFlags, SINGLE_LETTERS)) return "sentence";
    if (PROGRAMS.has(head) || PATH.test(head)) return "command";
    if (!NAME.test(head)) return "sentence";
    const isLower = /\p{Lowercase}/u.test(head) && !/[\p{Uppercase}\p{Lt}]/u.test(head);
    const tellsToRun = beforeFlags.some((word) => INTERPRETER.test(word));
    if (isLower && !tellsToRun && words.some(({ text }) => text.startsWith("--"))) return "command";
    return isLower || words.some(({ text }) => /^-|[./]/.test(text)) ? "unknown" : "sentence";
  }

  function ofInterpreter(words, proseWords) {
    let afterFlag = false;
    for (const { text, quoted } of words) {
      if (SCRIPT.test(text) || text === "-m" || text === "-c") return "unmistakable";
      if (quoted || /[./$]/.test(text)) return "command";
      if (!afterFlag && !text.startsWith("-")) return proseWords ? "sentence" : "unknown";
      afterFlag = text.startsWith("-");
    }
    return words.length ? "command" : "unknown";
  }

  function count(words, among) {
    return words.filter((word) =>
      among.has(
        word
          .replace(PUNCTUATION, "")
          .toLowerCase()
          .split(/['\u2019]/, 1)[0],
      ),
    ).length;
  }

  mlBench.prose = { reading, feedsDocuments };
})((globalThis.mlBench ??= {}));
