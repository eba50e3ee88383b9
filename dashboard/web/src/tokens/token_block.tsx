// Tokens that are drawn together while they are near to what is looked at, and are a space of their height otherwise.
import { Component, createRef } from "preact";
import type { Paint } from "./paint";
import { type CallTokens, SAMPLED, type Tokens } from "./tokens";

/** Tokens of a block, more or less: it ends with a line where there is one. */
const BLOCK = 256;
const EITHER_WAY = 64;
const NEAR = "1500px";
const LINE = 21;
const LETTER = 7.8;

/** Where Unicode has pictures of control characters, in their order. */
const CONTROL_PICTURES = 0x2400;

/** A character that takes up room: a form feed alone would be a token that nobody sees. */
function drawn(character: string): string {
  if (character === "\n") return "↵\n";
  return character < " " && character !== "\t"
    ? String.fromCharCode(CONTROL_PICTURES + character.charCodeAt(0))
    : character;
}

/** A text that shows what is no letter. */
export function visible(text: string, id: number): string {
  return text === "" ? `⟨${id}⟩` : Array.from(text, drawn).join("");
}

/** Where the blocks of a call end. */
export function ends(tokens: Tokens, call: CallTokens): number[] {
  const end = call.first + call.prompt + call.sampled;
  const found: number[] = [];
  let from = call.first;
  while (end - from > BLOCK + EITHER_WAY) {
    let to = from + BLOCK + EITHER_WAY;
    while (to > from + BLOCK - EITHER_WAY && !tokens.text(to - 1).endsWith("\n")) to -= 1;
    from = to > from + BLOCK - EITHER_WAY ? to : from + BLOCK;
    found.push(from);
  }
  return [...found, end];
}

export interface BlockProps {
  tokens: Tokens;
  from: number;
  to: number;
  /** The token that is pointed at, if it is one of these. */
  chosen: number | null;
  /** A token that is looked for, if it is one of these. */
  marked: number | null;
  paint: Paint;
  onlySampled: boolean;
}

export class Block extends Component<BlockProps, { isNear: boolean }> {
  state = { isNear: false };
  place = createRef<HTMLSpanElement>();
  observer: IntersectionObserver | undefined;
  height = 0;

  componentDidMount() {
    this.observer = new IntersectionObserver((entries) => this.seen(entries.at(-1)?.isIntersecting ?? false), {
      rootMargin: NEAR,
    });
    if (this.place.current) this.observer.observe(this.place.current);
  }

  componentWillUnmount() {
    this.observer?.disconnect();
  }

  seen(isNear: boolean) {
    if (isNear === this.state.isNear) return;
    // What it was high stays, so that nothing moves when it is drawn no longer.
    if (!isNear && this.place.current) this.height = this.place.current.offsetHeight;
    this.setState({ isNear });
  }

  shouldComponentUpdate(next: BlockProps, state: { isNear: boolean }) {
    if (state.isNear !== this.state.isNear || next.chosen !== this.props.chosen) return true;
    const { paint, onlySampled, tokens, marked } = this.props;
    return next.paint !== paint || next.onlySampled !== onlySampled || next.tokens !== tokens || next.marked !== marked;
  }

  guess(): number {
    const { tokens, from, to } = this.props;
    const wide = (this.place.current?.parentElement?.clientWidth ?? 900) / LETTER;
    return Math.ceil((1.3 * Math.max(tokens.bytes(from, to), 4 * (to - from))) / wide) * LINE;
  }

  drawn() {
    const { tokens, from, to, chosen, marked, paint, onlySampled } = this.props;
    const spans = [];
    for (let index = from; index < to; index += 1) {
      const isSampled = tokens.makers[index] === SAMPLED;
      if (onlySampled && !isSampled) {
        const begin = index;
        while (index + 1 < to && tokens.makers[index + 1] !== SAMPLED) index += 1;
        spans.push(<span key={begin} class="quiet left-out">{`⟨${index + 1 - begin} given⟩`}</span>);
        continue;
      }
      const looked = `${index === chosen ? " chosen" : ""}${index === marked ? " marked" : ""}`;
      const kind = `token${isSampled ? "" : " given"}${looked}`;
      spans.push(
        <span key={index} class={`${kind} ${paint.of(index)}`} data-at={index}>
          {visible(tokens.text(index), tokens.ids[index] ?? 0)}
        </span>,
      );
    }
    return spans;
  }

  render() {
    const isDrawn = this.state.isNear || this.props.chosen !== null;
    const style = isDrawn ? undefined : { height: `${this.height || this.guess()}px` };
    return (
      <span ref={this.place} class="block" style={style}>
        {isDrawn && this.drawn()}
      </span>
    );
  }
}
