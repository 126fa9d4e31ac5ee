// A page that the server draws from run folders, read block by block.
import { useCallback, useEffect, useState } from "preact/hooks";

import type { BundleHead } from "../bundle";
import { Data } from "../data";
import { setImagesAt } from "../images";
import { saveIn } from "../reviews";
import { readBundle, readHead, type Blocks } from "../read";
import { blocksOf, drawn, imagesOf, isLeft, sentenceOf } from "../server";
import { openSaved } from "./saved";

export interface DrawnPage {
  readonly head: BundleHead;
  /** Null while questions and results are being read. */
  readonly data: Data | null;
  /** Rises with each drawing. */
  readonly turn: number;
}

/** Draw the page of runs in turn `turn`, or nothing in turn 0. The page before stays until the next one is there. */
export const useDrawn = (names: readonly string[], turn: number): { readonly page: DrawnPage | null; readonly problem: string } => {
  const [page, setPage] = useState<DrawnPage | null>(null);
  const [problem, setProblem] = useState("");
  const wanted = names.join("\n");
  const fail = useCallback((error: unknown): void => { if (!isLeft(error)) setProblem(sentenceOf(error)); }, []);
  useEffect(() => {
    if (turn === 0) return undefined;
    const left = new AbortController();
    setProblem("");
    const draw = async (): Promise<void> => {
      const { key } = await drawn(wanted.split("\n"), left.signal);
      // Blocks of answers are read when they are looked at, which may fail then.
      const blocks: Blocks = async (name) => {
        try {
          return await blocksOf(key)(name);
        } catch (error) {
          fail(error);
          throw error;
        }
      };
      const head = await readHead(blocks);
      left.signal.throwIfAborted();
      setImagesAt(imagesOf(key));
      setPage((before) => before ?? { head, data: null, turn });
      const data = new Data(await readBundle(blocks, head));
      const [only, second] = wanted.split("\n");
      if (only !== undefined && second === undefined) saveIn(data, openSaved(only, head.runs[0]?.digest ?? ""));
      left.signal.throwIfAborted();
      document.title = `${head.title} · medvqa`;
      setPage({ head, data, turn });
    };
    draw().catch((error: unknown) => { if (!left.signal.aborted) fail(error); });
    return () => { left.abort(); };
  }, [wanted, turn, fail]);
  return { page, problem };
};
