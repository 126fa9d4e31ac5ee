// The sections of a page: their headings, folds and tabs, and the list by which one jumps to them.
import { options } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import type { NoticeBlock, PageSection } from "../bundle";
import { whenIdle } from "../idle";
import { Visible } from "../ui/text";
import { Choice } from "./choice";
import { HeadlineView } from "./headline";
import { MatrixView } from "./matrix";
import { NoticesView } from "./notice";
import { PlotView } from "./plot";
import { QuestionsView } from "./questions";
import { TableView } from "./table";
import { TextView } from "./text";
import "../style/blocks.css";

type Block = PageSection["blocks"][number];
type Titled = Exclude<Block, NoticeBlock>;

/** So many sections are worth a list to jump by, which leaves out folded ones if there are more. */
const JUMPS = { least: 3, most: 8 } as const;

const Drawn = ({ of }: { readonly of: Titled }) => {
  switch (of.block) {
    case "headline": return <HeadlineView of={of} />;
    case "table": return <TableView of={of} />;
    case "matrix": return <MatrixView of={of} />;
    case "plot": return <PlotView of={of} />;
    case "questions": return <QuestionsView of={of} />;
    case "text": return <TextView of={of} />;
  }
};

/** A block with its title, unless its section or a chosen name says the same; paper shows no names to choose. */
const BlockView = ({ of, within, chosen = [] }: { readonly of: Titled; readonly within: string; readonly chosen?: readonly string[] }) => {
  const title = of.block === "headline" || of.title === within ? "" : (of.title ?? "");
  if ("folded" in of && of.folded) {
    return (
      <details class="fold">
        <summary><h3><Visible text={title || "More"} /></h3></summary>
        <Drawn of={of} />
      </details>
    );
  }
  return <div class="block">{title !== "" && <h3 class={chosen.includes(title) ? "paper" : undefined}><Visible text={title} /></h3>}<Drawn of={of} /></div>;
};

const tabsOf = (block: Block): readonly string[] => ("tabs" in block ? (block.tabs ?? []) : []);

/** Blocks that stand in one place: the reader chooses by one name for each level. */
const Tabs = ({ of, within }: { readonly of: readonly Titled[]; readonly within: string }) => {
  const [chosen, choose] = useState<readonly string[]>([]);
  const levels: { readonly names: readonly string[]; readonly name: string }[] = [];
  let left = of;
  for (let k = 0; left.some((block) => tabsOf(block).length > k); k++) {
    const names = [...new Set(left.flatMap((block) => tabsOf(block)[k] ?? []))];
    const name = names.find((each) => each === chosen[k]) ?? names[0] ?? "";
    levels.push({ names, name });
    left = left.filter((block) => (tabsOf(block)[k] ?? name) === name);
  }
  const set = (k: number, name: string): void => { choose([...levels.slice(0, k).map((level) => level.name), name]); };
  return (
    <>
      {levels.map(({ names, name }, k) => names.length > 1 && <Choice label={`${within}, choice ${k + 1}`} names={names} chosen={names.indexOf(name)} choose={(place) => { set(k, names[place] ?? ""); }} />)}
      {left.map((block) => <BlockView key={`${tabsOf(block).join("\n")}\n${of.indexOf(block)}`} of={block} within={within} chosen={levels.filter(({ names }) => names.length > 1).map(({ name }) => name)} />)}
    </>
  );
};

/** Blocks as they are drawn: notices and blocks with tabs that follow each other belong together. */
const together = (blocks: readonly Block[]): readonly (readonly [Block, ...Block[]])[] => {
  const kind = (block: Block): string => (block.block === "notice" ? "notice" : tabsOf(block).length > 0 ? "tabs" : "");
  const found: [Block, ...Block[]][] = [];
  for (const block of blocks) {
    const last = found.at(-1);
    if (last !== undefined && kind(block) !== "" && kind(last[0]) === kind(block)) last.push(block);
    else found.push([block]);
  }
  return found;
};

const Blocks = ({ of }: { readonly of: PageSection }) => (
  <>
    {together(of.blocks).map((some) => {
      const titled = some.filter((block) => block.block !== "notice");
      if (titled.length === 0) return <NoticesView of={some.filter((block) => block.block === "notice")} />;
      return tabsOf(some[0]).length > 0 ? <Tabs of={titled} within={of.title} /> : titled.map((block) => <BlockView of={block} within={of.title} />);
    })}
  </>
);

const Section = ({ of, asked }: { readonly of: PageSection; readonly asked: boolean }) => {
  const { id, title, folded = false, printed = true } = of;
  const fold = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    if (asked && fold.current !== null) fold.current.open = true;
  }, [asked]);
  const head = <h2 id={`${id}-title`}><Visible text={title} /></h2>;
  return (
    <section id={id} aria-labelledby={`${id}-title`} class={printed ? undefined : "screen"}>
      {folded ? <details class="of-section" ref={fold}><summary>{head}</summary><Blocks of={of} /></details> : <>{head}<Blocks of={of} /></>}
    </section>
  );
};

const waiting = new Set<() => void>();

/** Draw all sections before returning, as for paper: else preact would draw after a while. */
export const drawAll = (): void => {
  options.debounceRendering = (draw) => { draw(); };
  for (const draw of waiting) draw();
  delete options.debounceRendering;
};

/** Whether the browser will scroll to where the reader was before. */
const comesBack = (): boolean =>
  performance.getEntriesByType("navigation").some((entry) => (entry as PerformanceNavigationTiming).type !== "navigate");

/**
 * The number of sections to draw: first those in sight, then one after the other while nobody waits. `end` is below
 * them.
 */
const useDrawn = (all: number, whole: boolean, end: { readonly current: HTMLElement | null }): number => {
  const [drawn, setDrawn] = useState(() => (comesBack() ? all : 1));
  const left = !whole && drawn < all;
  useLayoutEffect(() => {
    // What was drawn stays.
    if (whole) setDrawn(all);
    if (!left) return undefined;
    const next = (): void => { setDrawn(drawn + 1); };
    const rest = (): void => { setDrawn(all); };
    waiting.add(rest);
    const top = end.current?.getBoundingClientRect().top ?? 0;
    const callOff = top < innerHeight ? null : whenIdle(next);
    if (callOff === null) next();
    return () => {
      waiting.delete(rest);
      callOff?.();
    };
  }, [left, whole, drawn, all, end]);
  return left ? drawn : all;
};

/** `asked`: the section that the address names. */
export const Sections = ({ of, asked }: { readonly of: readonly PageSection[]; readonly asked: string }) => {
  const end = useRef<HTMLDivElement>(null);
  const drawn = useDrawn(of.length, asked !== "", end);
  return (
    <>
      {of.length >= JUMPS.least && (
        <nav class="jump" aria-label="Sections">
          {of.filter(({ folded = false }) => !folded || of.length <= JUMPS.most).map(({ id, title }) => <a key={id} href={`#${id}`}><Visible text={title} /></a>)}
        </nav>
      )}
      {of.slice(0, drawn).map((section) => <Section key={section.id} of={section} asked={section.id === asked} />)}
      {drawn < of.length && <div class="undrawn" ref={end} />}
    </>
  );
};
