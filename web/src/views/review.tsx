// A reader's own reviews: the panel beside an answer, and the view that lists, exports and imports them.
import { useEffect, useId, useReducer, useState } from "preact/hooks";

import { save } from "../csv";
import type { Data } from "../data";
import { keyText } from "../key";
import type { Page } from "../page";
import { MAX_COMMENT, MAX_FILE, SCORES, TAGS, TAG_NAMES, reviewsOf, savedOf, type Entry, type Kept, type Reviews, type SavedStore, type Tag } from "../reviews";
import "../style/review.css";
import { count, flat, label, plural } from "../text";
import { FileChoice } from "../ui/file-choice";
import { Outcome } from "../ui/outcome";
import { Visible } from "../ui/text";

const SHOWN = 200;

/** The reviews of a page; the component is drawn again when they change. */
const useReviews = (data: Data): Reviews => {
  const [, draw] = useReducer<number, null>((version) => version + 1, 0);
  const reviews = reviewsOf(data);
  useEffect(() => reviews.subscribe(() => { draw(null); }), [reviews]);
  return reviews;
};

const LOST: Readonly<Record<Exclude<Kept, "kept">, string>> = {
  blocked: "This browser stores nothing for this page: reviews are lost when you close it. Export them before.",
  full: "The storage of this browser is full: the last reviews are lost when you close the page. Export them before.",
  unreadable:
    "The storage of this browser has reviews of this run that this page cannot read. It leaves them as they are, and keeps yours until you close it. Export them before, or delete all.",
};

const StorageNote = ({ data, kept }: { readonly data: Data; readonly kept: Kept }) => {
  const saved = savedOf(data);
  if (saved !== null) return <SavedNote saved={saved} />;
  return kept === "kept" ? null : <p class="alert" role="alert">{LOST[kept]}</p>;
};

/** What the server says of its file, if somebody must know it. `one`: what a line of the file is called. */
export const SavedNote = ({ saved, one = "review" }: { readonly saved: SavedStore; readonly one?: string }) => {
  if (saved.state === "failed") {
    return (
      <p class="alert" role="alert">
        Your last {one}s are not saved: <Visible text={saved.why} /> Export them before you close the page.{" "}
        <button type="button" onClick={() => { void saved.load(); }}>Try again</button>
      </p>
    );
  }
  if (saved.state !== "changed") return null;
  return (
    <p class="alert" role="alert">
      {plural(saved.conflicts, one)} that you changed {saved.conflicts === 1 ? "was" : "were"} changed elsewhere meanwhile, in another tab or by somebody else. Nothing is saved until you choose.{" "}
      <button type="button" onClick={() => { saved.decide(true); }}>Keep mine</button>{" "}
      <button type="button" onClick={() => { saved.decide(false); }}>Take theirs</button>
    </p>
  );
};

const SAVED: Readonly<Record<SavedStore["state"], string>> = {
  reading: "Reading your reviews. ",
  saved: "Saved in the run folder, in reviews.jsonl. ",
  saving: "Saving. ",
  failed: "",
  changed: "",
};

/** Where a review stays, in a few words. */
const placeOf = (data: Data, kept: Kept): string => {
  const saved = savedOf(data);
  return saved === null ? (kept === "kept" ? "Kept in this browser. " : "") : SAVED[saved.state];
};

/** The number of reviews, beside the name of their view. */
export const ReviewCount = ({ data }: { readonly data: Data }) => {
  const { size } = useReviews(data);
  return size === 0 ? null : <span class="count"> {count(size)}</span>;
};

/** Whether a judge scored the answer, so that a person's own score can be compared with it. */
const useJudged = (data: Data, result: number): boolean => {
  const answers = data.bundle.answers;
  const [, read] = useState(-1);
  useEffect(() => {
    let shown = true;
    answers.get(result).then(() => { if (shown) read(result); }, () => undefined);
    return () => { shown = false; };
  }, [answers, result]);
  return answers.at(result)?.judged?.task === "score";
};

/** Tags, comment and score of one result; `of` names it for screen readers, as several may stand side by side. */
export const ReviewPanel = ({ data, result, of }: { readonly data: Data; readonly result: number; readonly of: string }) => {
  const reviews = useReviews(data);
  const judged = useJudged(data, result);
  const id = useId();
  const { tags, comment, score } = reviews.of(result);
  const toggle = (tag: Tag, on: boolean): void => {
    reviews.set(result, { tags: on ? [...tags, tag] : tags.filter((each) => each !== tag) });
  };
  return (
    <section class="review" aria-label={`Your review of ${flat(of)}`}>
      <h3>Your review</h3>
      <StorageNote data={data} kept={reviews.kept} />
      <fieldset>
        <legend>Tags</legend>
        <div class="tags">
          {TAG_NAMES.map((tag) => (
            <label title={TAGS[tag]}>
              <input type="checkbox" checked={tags.includes(tag)} onChange={({ currentTarget }) => { toggle(tag, currentTarget.checked); }} />
              {label(tag)}
            </label>
          ))}
        </div>
      </fieldset>
      <details>
        <summary>Meaning of the tags</summary>
        <dl>{TAG_NAMES.map((tag) => <div><dt>{label(tag)}</dt><dd>{TAGS[tag]}</dd></div>)}</dl>
      </details>
      {(judged || score !== null) && (
        <fieldset>
          <legend>Your score, to compare with the judge’s</legend>
          <div class="tags">
            {[null, ...SCORES].map((each) => (
              <label>
                <input type="radio" name={`${id}-score`} checked={score === each} onChange={() => { reviews.set(result, { score: each }); }} />
                {each ?? "none"}
              </label>
            ))}
          </div>
        </fieldset>
      )}
      <label class="comment">
        Comment
        <textarea rows={2} maxLength={MAX_COMMENT} value={comment} onInput={({ currentTarget }) => { reviews.set(result, { comment: currentTarget.value }); }} />
      </label>
      <p class="quiet">{placeOf(data, reviews.kept)}Do not name patients: an export holds the comment.</p>
    </section>
  );
};

const fileName = (run: string): string => `reviews-of-${run.replace(/[^A-Za-z0-9._-]+/g, "-").slice(0, 80)}.jsonl`;

interface Pending {
  readonly entries: readonly Entry[];
  readonly conflicts: readonly Entry[];
}

/** Export, import and delete the reviews of one run. */
const Files = ({ page, data, reviews, run }: { readonly page: Page; readonly data: Data; readonly reviews: Reviews; readonly run: number }) => {
  const name = page.head.runs[run]?.name ?? "";
  const lines = reviews.exported(run);
  const number = lines === "" ? 0 : lines.split("\n").length - 1;
  const [said, say] = useState("");
  const [pending, ask] = useState<Pending | null>(null);
  const [deleting, confirm] = useState(false);
  const several = page.head.runs.length > 1;
  const take = (entries: readonly Entry[], replaced: string): void => {
    reviews.take(run, entries);
    ask(null);
    say(`${plural(entries.length, "review")} imported${replaced}.`);
  };
  const load = async (file: File): Promise<void> => {
    ask(null);
    try {
      if (file.size > MAX_FILE) throw new Error(`larger than ${count(MAX_FILE / 2 ** 20)} MiB`);
      const found = reviews.imported(run, await file.text());
      if (found.conflicts.length > 0) ask(found);
      else take(found.entries, "");
    } catch (error) {
      say(`${file.name}: ${error instanceof Error ? error.message : String(error)}. Nothing was imported.`);
    }
  };
  return (
    <div class="files" role="group" aria-label={several ? `Reviews of ${name}` : "Reviews as a file"}>
      {several && <strong><Visible text={name} /></strong>}
      <button type="button" disabled={number === 0} onClick={() => { save(lines, fileName(name), "application/jsonl"); }}>
        Export {plural(number, "review")}
      </button>
      <FileChoice load={load}>Import a file</FileChoice>
      {!deleting && <button type="button" disabled={number === 0 && reviews.kept !== "unreadable"} onClick={() => { confirm(true); }}>Delete all</button>}
      {deleting && (
        <>
          <button type="button" onClick={() => { reviews.clear(run); confirm(false); say("All reviews are deleted."); }}>
            Delete {plural(number, "review")} from {savedOf(data) === null ? "this browser" : "the run folder"}
          </button>
          <button type="button" onClick={() => { confirm(false); }}>Keep them</button>
        </>
      )}
      <p role="status"><Visible text={said} /></p>
      {pending !== null && (
        <p class="pending">
          {plural(pending.conflicts.length, "result has", "results have")} another review here.{" "}
          <button type="button" onClick={() => { take(pending.entries, `, ${count(pending.conflicts.length)} of yours replaced`); }}>
            Take those of the file
          </button>{" "}
          <button
            type="button"
            onClick={() => {
              const own = new Set(pending.conflicts.map(({ key }) => keyText(key)));
              take(pending.entries.filter(({ key }) => !own.has(keyText(key))), `, ${count(own.size)} of yours kept`);
            }}
          >
            Keep mine
          </button>
        </p>
      )}
    </div>
  );
};

const Line = ({ page, data, reviews, result }: { readonly page: Page; readonly data: Data; readonly reviews: Reviews; readonly result: number }) => {
  const { tags, comment, score } = reviews.of(result);
  const key = data.key(result);
  const run = page.head.runs.length > 1 ? (page.head.runs[data.at("results.run", result)]?.name ?? "") : "";
  const more = [run, key.technique, key.variant, key.sample > 0 ? `sample ${key.sample}` : ""].filter((part) => part !== "").join(", ");
  return (
    <tr>
      <th scope="row">
        <a href={page.link({ benchmark: key.benchmark, item: keyText(key) })}><Visible text={key.item} /></a>
        <small class="quiet"><Visible text={`${key.benchmark}, ${more}`} /></small>
      </th>
      <td><Outcome name={data.outcome(result)} /></td>
      <td>{tags.map(label).join(", ")}</td>
      <td>{score}</td>
      <td class="said"><Visible text={comment} /></td>
    </tr>
  );
};

/** The view of all reviews. */
export const ReviewView = ({ page, data }: { readonly page: Page; readonly data: Data }) => {
  const reviews = useReviews(data);
  const [only, choose] = useState<Tag | null>(null);
  const all = reviews.results();
  const results = only === null ? all : all.filter((result) => reviews.tags(result).includes(only));
  const runs = page.head.runs.map((_, run) => run);
  const saved = savedOf(data);
  return (
    <section id="review" aria-labelledby="review-title">
      <h1 id="review-title">Your reviews</h1>
      <p>
        Open a question, choose tags and write a comment. {plural(all.length, "answer is", "answers are")} reviewed.
        {saved === null && reviews.kept === "kept" && " Reviews stay in this browser, under the digest of the run’s answers. They hold no name and no image."}
        {saved !== null && " Reviews are saved in the run folder, in reviews.jsonl, which the commands below read. They hold no name and no image."}
      </p>
      {saved !== null && saved.earlier > 0 && (
        <p class="aside">{plural(saved.earlier, "review")} of earlier answers of this run {saved.earlier === 1 ? "stays" : "stay"} in its folder: the run went on, or was answered again. With your first review they move to a file of their own there.</p>
      )}
      <StorageNote data={data} kept={reviews.kept} />
      {runs.map((run) => <Files page={page} data={data} reviews={reviews} run={run} />)}
      {all.length > 0 && (
        <>
          <div class="chips" role="group" aria-label="Tag">
            {[...reviews.counts()].map(([tag, number]) => (
              <button type="button" aria-pressed={only === tag} onClick={() => { choose(only === tag ? null : tag); }}>
                {label(tag)} {count(number)}
              </button>
            ))}
          </div>
          <div class="scroll" tabIndex={0} role="group" aria-label="Reviewed answers">
            <table class="reviews">
              <thead>
                <tr>{["question", "outcome", "tags", "score", "comment"].map((name) => <th scope="col">{name}</th>)}</tr>
              </thead>
              <tbody>
                {results.slice(0, SHOWN).map((result) => <Line key={result} page={page} data={data} reviews={reviews} result={result} />)}
              </tbody>
            </table>
          </div>
          {results.length > SHOWN && <p>{count(results.length - SHOWN)} more are not listed here; an export has all.</p>}
        </>
      )}
      <h2>Use them</h2>
      <p>
        {saved === null ? "Name an exported file after its reader. " : "FILE is RUN/reviews.jsonl, or an exported file, named after its reader. "}
        <code>medvqa classify RUN --human=FILE</code> takes the tags perception,
        knowledge, laterality and extraction as kinds of errors. <code>medvqa agreement RUN --human=FILE</code> compares
        your scores with the judge’s.
      </p>
    </section>
  );
};
