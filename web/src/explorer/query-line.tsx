// The query line: an input with suggestions, by the pattern of a combobox with a list.
import { useEffect, useId, useRef, useState } from "preact/hooks";

import { suggest, type Name, type Problem, type Suggestion } from "../query";
import { flat, plural } from "../text";
import { Visible } from "../ui/text";

const WAIT = 90; // ms after a key until the list follows

interface QueryLineOf {
  readonly table: { readonly fields: readonly Name[] };
  readonly query: string;
  readonly example: string;
  /** Called with each text that is to be applied, and the place of the caret while the text is typed (-1: it is done). */
  readonly change: (query: string, caret: number) => void;
}

export const QueryLine = ({ table, query, example, change }: QueryLineOf) => {
  const [text, setText] = useState(query);
  const [offered, setOffered] = useState<readonly Suggestion[]>([]);
  const [chosen, setChosen] = useState(-1);
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef(0);
  const sent = useRef(query);
  const id = useId();
  useEffect(() => {
    // The query was changed elsewhere: by a facet, a link or Back.
    if (query === sent.current) return;
    sent.current = query;
    clearTimeout(timer.current);
    setText(query);
    setOffered([]);
  }, [query]);
  useEffect(() => () => { clearTimeout(timer.current); }, []);
  const apply = (next: string, caret: number): void => {
    clearTimeout(timer.current);
    sent.current = next;
    change(next, caret);
  };
  const offer = (next: string, caret: number): void => {
    setOffered(suggest(next, caret, table.fields));
    setChosen(-1);
  };
  const type = (next: string, caret: number): void => {
    setText(next);
    offer(next, caret);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => { apply(next, caret); }, WAIT);
  };
  const take = (suggestion: Suggestion): void => {
    const next = text.slice(0, suggestion.start) + suggestion.text + (suggestion.more ? "" : " ") + text.slice(suggestion.end).trimStart();
    const caret = suggestion.start + suggestion.text.length + (suggestion.more ? 0 : 1);
    setText(next);
    if (suggestion.more) offer(next, caret);
    else setOffered([]);
    setChosen(-1);
    apply(next, suggestion.more ? caret : -1);
    requestAnimationFrame(() => {
      input.current?.focus();
      input.current?.setSelectionRange(caret, caret);
    });
  };
  const key = (event: KeyboardEvent): void => {
    const open = offered.length > 0;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!open) offer(input.current?.value ?? text, input.current?.selectionStart ?? text.length);
      else setChosen((chosen + (event.key === "ArrowDown" ? 1 : offered.length + (chosen < 0 ? 0 : -1))) % offered.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      const suggestion = offered[chosen];
      if (suggestion !== undefined) take(suggestion);
      else {
        setOffered([]);
        apply(input.current?.value ?? text, -1);
      }
    } else if (event.key === "Escape" && open) {
      event.preventDefault();
      setOffered([]);
    } else if (event.key === "Escape") {
      // The keys of the list work again.
      input.current?.blur();
    }
  };
  const open = offered.length > 0;
  return (
    <div class="query" role="search">
      <label class="sr" for={`${id}-input`}>Query: words, or FIELD:VALUE</label>
      <input
        id={`${id}-input`}
        ref={input}
        type="text"
        class="query-input"
        data-query
        role="combobox"
        aria-expanded={open}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={open && chosen >= 0 ? `${id}-${chosen}` : undefined}
        aria-describedby={`${id}-help`}
        placeholder={example}
        autocomplete="off"
        spellcheck={false}
        maxLength={4000}
        value={text}
        onInput={(event) => { type(event.currentTarget.value, event.currentTarget.selectionStart ?? 0); }}
        onKeyDown={key}
        onFocus={(event) => { if (event.currentTarget.value === "") offer("", 0); }}
        onBlur={() => { setOffered([]); if (text !== "") apply(text, -1); }}
      />
      <ul id={`${id}-list`} class="suggestions" role="listbox" aria-label="Suggestions" hidden={!open}>
        {offered.map((suggestion, place) => (
          <li
            key={suggestion.text}
            id={`${id}-${place}`}
            role="option"
            aria-selected={place === chosen}
            // The input keeps the focus: a press would take it away.
            onMouseDown={(event) => { event.preventDefault(); }}
            onClick={() => { take(suggestion); }}
          >
            <code><Visible text={suggestion.text} /></code>
            {suggestion.label !== suggestion.text.replace(/[:>]$/, "") && <span class="quiet"><Visible text={suggestion.label} /></span>}
          </li>
        ))}
      </ul>
      <p class="sr" id={`${id}-help`}>Terms are joined by AND. Arrow keys choose a suggestion, Enter takes it.</p>
      <p class="sr" role="status">{open ? plural(offered.length, "suggestion") : ""}</p>
    </div>
  );
};

/** What is wrong with a query, and buttons that mend it. */
export const Problems = ({ problems, mend }: { readonly problems: readonly Problem[]; readonly mend: (problem: Problem, by: string) => void }) => (
  <div class="problems" role="alert">
    {problems.map((problem) => (
      <div key={problem.term.start}>
        <p><Visible text={problem.message} /></p>
        <p class="mends">
          {problem.instead.map((by) => (
            <button key={by} type="button" aria-label={`Use ${flat(by)}`} onClick={() => { mend(problem, by); }}><code><Visible text={by} /></code></button>
          ))}
          <button type="button" onClick={() => { mend(problem, ""); }}>Remove the term</button>
        </p>
      </div>
    ))}
  </div>
);
