// The one file that talks to the server of `medvqa view`. Pages in a file talk to nothing.
import type { Problem } from "./served";
import type { Blocks } from "./read";

const get = async (path: string): Promise<Response> => {
  const response = await fetch(path, { credentials: "same-origin", cache: "no-store" });
  if (response.ok) return response;
  const { error } = (await response.json()) as Problem;
  throw new Error(error);
};

/** One answer of `/api/`. */
export const ask = async <T>(path: string): Promise<T> => (await (await get(`/api/${path}`)).json()) as T;

/** The blocks of a drawn bundle. */
export const blocksOf = (key: string): Blocks => async (name) =>
  new Uint8Array(await (await get(`/api/bundles/${encodeURIComponent(key)}/${name}`)).arrayBuffer());
