// SPDX-License-Identifier: Apache-2.0
// Regular expressions as the program's filters read them (those of PCRE2), in JavaScript. What JavaScript would
// match otherwise is translated, and an expression that it cannot match alike is refused.

/** The expression is wrong, or cannot be matched here; the message says where and why. */
export class WrongPattern extends Error {}

const CLASSES: Record<string, string> = {
  alpha: "A-Za-z",
  digit: "0-9",
  alnum: "A-Za-z0-9",
  upper: "A-Z",
  lower: "a-z",
  space: "\\t-\\r ",
  blank: "\\t ",
  punct: "!-\\/:-@\\[-`\\{-~",
  print: " -~",
  graph: "!-~",
  cntrl: "\\x00-\\x1f\\x7f",
  xdigit: "0-9A-Fa-f",
  word: "0-9A-Za-z_",
};
/** What a backslash and a letter mean, as members between brackets; outside, within brackets. */
const MEMBERS: Record<string, string> = { d: "0-9", w: "0-9A-Za-z_", s: "\\t-\\r ", n: "\\n", r: "\\r", t: "\\t", f: "\\f" };
const INVERSE: Record<string, string> = { D: "d", W: "w", S: "s" };
const ANCHORS: Record<string, string> = { b: "\\b", B: "\\B", A: "^", z: "$" };
const GROUPS = ["?:", "?=", "?!"];
const REPEATS_MAX = 65535;

const literally = (character: string) => character.replace(/[\\^$.|?*+()[\]{}/]/u, "\\$&");
/** Return a character as a member between brackets. */
const member = (character: string) => character.replace(/[\\^[\]-]/u, "\\$&");

class Translator {
  private at = 0;
  private open = 0;
  private text: string[]; // its characters

  constructor(text: string) {
    this.text = Array.from(text);
  }

  private fail(reason: string): never {
    throw new WrongPattern(`character ${this.at + 1}: ${reason}`);
  }

  private rest(): string {
    return this.text.slice(this.at).join("");
  }

  /** Take the name between "[:" and ":]" and return its class. */
  private takeClass(): string {
    const found = /^\[:([a-z]*):\]/.exec(this.rest());
    const members = found && CLASSES[found[1]!];
    if (!members) this.fail("there is no such class of characters in this page");
    this.at += found[0].length;
    return members;
  }

  private takeLetter(): string {
    const next = this.text[this.at + 1];
    if (next === undefined) this.fail("a backslash is at the end");
    if (/[1-9]/.test(next)) this.fail("references to groups are not supported");
    return next;
  }

  /** Take a backslash and what follows it between brackets. `single`: it can begin or end a range. */
  private takeEscapedMember(): { text: string; single: string | null } {
    const next = this.takeLetter();
    const known = MEMBERS[next];
    if (known === undefined && /[0-9A-Za-z]/.test(next)) this.fail(`\\${next} is not supported between brackets in this page`);
    this.at += 2;
    return known !== undefined ? { text: known, single: null } : { text: member(next), single: next };
  }

  private takeMember(): { text: string; single: string | null } {
    const one = this.text[this.at]!;
    if (one === "\\") return this.takeEscapedMember();
    if (one === "[" && this.text[this.at + 1] === ":") return { text: this.takeClass(), single: null };
    if (one === "[" && /[.=]/.test(this.text[this.at + 1] ?? "")) this.fail("collating symbols are not supported");
    this.at++;
    return { text: member(one), single: one };
  }

  private takeBrackets(): string {
    let out = "[";
    this.at++;
    if (this.text[this.at] === "^") {
      out += "^";
      this.at++;
    }
    for (let first = true; first || this.text[this.at] !== "]"; first = false) {
      if (this.at >= this.text.length) this.fail("a [ has no ]");
      const from = this.takeMember();
      out += from.text;
      if (this.text[this.at] !== "-" || this.text[this.at + 1] === "]" || this.at + 1 >= this.text.length) continue;
      this.at++;
      if (from.single === null) this.fail("a range begins with a class");
      const to = this.takeMember();
      if (to.single === null) this.fail("a range ends with a class");
      if (to.single.codePointAt(0)! < from.single.codePointAt(0)!) this.fail("a range ends before it begins");
      out += `-${to.text}`;
    }
    this.at++;
    return `${out}]`;
  }

  private takeBackslash(): { text: string; isAnchor: boolean } {
    const next = this.takeLetter();
    const anchor = ANCHORS[next];
    const known = MEMBERS[next] ?? (INVERSE[next] && MEMBERS[INVERSE[next]]);
    if (anchor === undefined && known === undefined && /[0-9A-Za-z]/.test(next)) this.fail(`\\${next} is not supported in this page`);
    this.at += 2;
    if (anchor !== undefined) return { text: anchor, isAnchor: true };
    return { text: known === undefined ? literally(next) : `[${INVERSE[next] ? "^" : ""}${known}]`, isAnchor: false };
  }

  /** Take a repetition (*, +, ?, {2}, {2,} or {2,5}) and the ? after it that makes it lazy. Return "" if the pattern
   * does not go on with a repetition. */
  private takeRepeat(): string {
    const found = /^(?:[*+?]|\{(\d+)(?:,(\d*))?\})/.exec(this.rest());
    if (!found) {
      if (/^\{,/.test(this.rest())) this.fail("a repetition needs a number before the comma");
      return "";
    }
    const most = Math.max(Number(found[1] ?? 0), Number(found[2] || 0));
    if (most > REPEATS_MAX) this.fail("a repetition has too large a number");
    if (found[2] && Number(found[2]) < Number(found[1])) this.fail("a repetition has its numbers in the wrong order");
    this.at += found[0].length;
    const next = this.text[this.at];
    if (next === "+") this.fail("possessive repetitions are not supported in this page");
    if (next === "?") this.at++;
    if (/^(?:[*+?]|\{\d+(?:,\d*)?\})/.test(this.rest())) this.fail("there is nothing before a repetition that could be repeated");
    return found[0] + (next === "?" ? "?" : "");
  }

  private takeGroup(): string {
    this.at++;
    const kind = GROUPS.find((one) => this.rest().startsWith(one)) ?? "";
    if (kind === "" && /^[?*]/.test(this.rest())) this.fail("groups of this kind are not supported in this page");
    this.at += kind.length;
    this.open++;
    const inside = this.takeAlternatives();
    if (this.text[this.at] !== ")") this.fail("a ( has no )");
    this.at++;
    this.open--;
    // What is repeated is no assertion in JavaScript.
    return `(?:${kind === "" || kind === "?:" ? inside : `(${kind}${inside})`})`;
  }

  private takeAnchor(anchor: string): string {
    if (this.takeRepeat() !== "") this.fail("what a repetition repeats is no character");
    return anchor;
  }

  private takeAtom(): string {
    const one = this.text[this.at]!;
    if (one === "(") return this.takeGroup() + this.takeRepeat();
    if (one === "[") return this.takeBrackets() + this.takeRepeat();
    if (one === "\\") {
      const { text, isAnchor } = this.takeBackslash();
      return isAnchor ? this.takeAnchor(text) : text + this.takeRepeat();
    }
    if (this.takeRepeat() !== "") this.fail(`there is nothing before the ${one} that could be repeated`);
    this.at++;
    if (one === ")") this.fail("a ) has no (");
    if (one === "^" || one === "$") return this.takeAnchor(one);
    return (one === "." ? "." : literally(one)) + this.takeRepeat();
  }

  /** Take alternatives up to the end, or to the parenthesis that closes them. */
  private takeAlternatives(): string {
    let out = "";
    while (this.at < this.text.length && !(this.text[this.at] === ")" && this.open > 0)) {
      if (this.text[this.at] === "|") {
        out += "|";
        this.at++;
      } else {
        out += this.takeAtom();
      }
    }
    return out;
  }

  translate(): RegExp {
    return new RegExp(this.takeAlternatives(), "su");
  }
}

/** Return a test of texts by an expression. */
export function matcherOfPattern(pattern: string): (text: string) => boolean {
  if (pattern === "") throw new WrongPattern("the pattern is empty, which matches every frame");
  const expression = new Translator(pattern).translate();
  return (text) => expression.test(text);
}
