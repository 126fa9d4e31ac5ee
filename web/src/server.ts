// The one file that talks to the server of `medvqa view`. Pages in a file talk to nothing.
import type { Drawn, Problem } from "./served";
import type { Blocks } from "./read";

/** An answer that is no success, in the server's words. */
export class ServerProblem extends Error {
  /** The status of HTTP; 0 if there was no answer. */
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.name = "ServerProblem";
    this.status = status;
  }
}

export const ENDED = "The server has ended: start medvqa view again. This page goes on by itself when it is back.";

interface Asked {
  readonly method?: "GET" | "PUT";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Aborts the request, such as when its view is left. */
  readonly signal?: AbortSignal | undefined;
  /** The time limit of the request. */
  readonly seconds?: number;
}
const SECONDS = 30;
const BLOCK_SECONDS = 120;
/** A large run is drawn in minutes. */
const DRAWING_SECONDS = 1800;

const problemOf = async (response: Response): Promise<ServerProblem> => {
  const text = await response.text();
  let error = `The server answered with status ${response.status}.`;
  try {
    const problem = JSON.parse(text) as Partial<Problem> | null;
    if (typeof problem?.error === "string") error = problem.error;
  } catch {
    // Not from the application itself: the status must do.
  }
  return new ServerProblem(error, response.status);
};

/** Ask for a path and read its answer with `read`, within a time limit. Throws ServerProblem. */
const request = async <T>(path: string, { signal, seconds = SECONDS, ...more }: Asked, read: (response: Response) => Promise<T>): Promise<T> => {
  const limit = AbortSignal.timeout(seconds * 1000);
  try {
    const response = await fetch(path, {
      ...more,
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
    });
    if (!response.ok) throw await problemOf(response);
    return await read(response);
  } catch (error) {
    if (error instanceof ServerProblem || signal?.aborted === true) throw error;
    if (limit.aborted) throw new ServerProblem(`The server did not answer within ${seconds} s. Try again.`, 0);
    // The browser says no more than "failed" if nobody listens there.
    if (error instanceof TypeError) throw new ServerProblem(ENDED, 0);
    throw error;
  }
};

/** Whether an error only says that its view was left. */
export const isLeft = (error: unknown): boolean => error instanceof DOMException && error.name === "AbortError";
/** An error as a sentence for people. */
export const sentenceOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** One answer of `/api/` as JSON. */
export const ask = <T>(path: string, asked: Asked = {}): Promise<T> =>
  request(`/api/${path}`, asked, async (response) => (await response.json()) as T);

/** A text with the version that the server gave it, "" without one. */
export interface Versioned {
  readonly text: string;
  readonly version: string;
  /** Reviews of earlier answers that the server keeps beside the text. */
  readonly earlier?: number;
}
const versioned = async (response: Response): Promise<Versioned> => ({
  text: await response.text(),
  version: response.headers.get("ETag") ?? "",
  earlier: Number(response.headers.get("Medvqa-Earlier") ?? 0),
});

/** Read a text of `/api/`. */
export const askText = (path: string, asked: Asked = {}): Promise<Versioned> => request(`/api/${path}`, asked, versioned);

/** Write a text of `/api/` in place of `version`. A ServerProblem of status 412: it has been changed since. */
export const put = (path: string, { text, version }: Versioned, asked: Asked = {}): Promise<Versioned> =>
  request(
    `/api/${path}`,
    { ...asked, method: "PUT", body: text, headers: { "Content-Type": "application/jsonl", ...(version === "" ? {} : { "If-Match": version }) } },
    versioned,
  );

/** A path below `/api/` for a run: its name may have "/". */
export const pathOfRun = (name: string): string => `runs/${name.split("/").map(encodeURIComponent).join("/")}`;

/** Have the page of one run drawn, or the comparison of several. One at a time: the connections of a browser are few. */
export const drawn = (runs: readonly string[], signal?: AbortSignal): Promise<Drawn> => {
  const names = runs.map((name) => `run=${encodeURIComponent(name)}`).join("&");
  const draw = (): Promise<Drawn> => ask(`bundle?${names}`, { signal, seconds: DRAWING_SECONDS });
  // A browser without locks draws in each tab.
  const { locks } = navigator as { readonly locks?: LockManager | null };
  return locks == null ? draw() : locks.request("medvqa-drawing", signal === undefined ? {} : { signal }, draw);
};

/** The blocks of a drawn bundle. */
export const blocksOf = (key: string): Blocks => (name) =>
  request(`/api/bundles/${encodeURIComponent(key)}/${name}`, { seconds: BLOCK_SECONDS }, async (response) => new Uint8Array(await response.arrayBuffer()));

/** Where the images of a drawn bundle are. */
export const imagesOf = (key: string): string => `/api/bundles/${encodeURIComponent(key)}/`;

/** The address of an original image of a run. */
export const originalOf = (name: string, digest: string): string => `/api/${pathOfRun(name)}/images/${encodeURIComponent(digest)}`;
