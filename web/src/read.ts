// The blocks of a bundle, as they stand in the page: deflated, in base64.
import { VERSION, type Answered, type TypedArray, type BundleHead, type ReadingHead, type Tables } from "./bundle";

/** Reads one block by its name. A page reads its own; a server can offer the same blocks. */
export type Blocks = (name: string) => Promise<Uint8Array>;

interface FromBase64 {
  readonly fromBase64?: (text: string) => Uint8Array<ArrayBuffer>;
}

/** The bytes of base64; browsers before 2025 have no function for it. */
const unpacked = (text: string): Uint8Array<ArrayBuffer> => {
  const { fromBase64 } = Uint8Array as FromBase64;
  if (fromBase64 !== undefined) return fromBase64.call(Uint8Array, text);
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let place = 0; place < bytes.length; place++) bytes[place] = characters.charCodeAt(place);
  return bytes;
};

/**
 * The element of a block once the browser has read all of it: the script runs while it still reads the page. Texts of
 * answers come last: the other blocks are read together, since tables name files of images.
 */
const elementOf = (name: string): Promise<HTMLElement | null> =>
  new Promise((resolve) => {
    const reading = new MutationObserver(() => { look(); });
    const look = (): void => {
      const element = document.getElementById(`block-${name}`);
      const ended = name.startsWith("answers/") ? element?.nextElementSibling != null : document.getElementById("block-answers/0") !== null;
      if (document.readyState === "loading" && !ended && name !== "head") return;
      reading.disconnect();
      document.removeEventListener("DOMContentLoaded", look);
      resolve(element);
    };
    reading.observe(document.body, { childList: true });
    document.addEventListener("DOMContentLoaded", look);
    look();
  });

export const blocksOfPage: Blocks = async (name) => {
  const element = await elementOf(name);
  if (element === null) throw new Error(`the page has no block ${name}`);
  const { readable, writable } = new DecompressionStream("deflate");
  const writer = writable.getWriter();
  const written = writer.write(unpacked(element.textContent)).then(() => writer.close());
  const [bytes] = await Promise.all([new Response(readable).arrayBuffer(), written]);
  return new Uint8Array(bytes);
};

const parsed = (bytes: Uint8Array): unknown => JSON.parse(new TextDecoder().decode(bytes));

export const json = async <T>(blocks: Blocks, name: string): Promise<T> => parsed(await blocks(name)) as T;

export const readHead = async <Head extends BundleHead | ReadingHead = BundleHead>(blocks: Blocks): Promise<Head> => {
  const head = await json<Head>(blocks, "head");
  if (head.version !== VERSION) throw new Error(`the page has version ${head.version} of the format, not ${VERSION}`);
  return head;
};

export type Numbers = Uint8Array | Uint16Array | Uint32Array | Int32Array | Float32Array | Float64Array;

const TYPES = {
  u8: Uint8Array,
  u16: Uint16Array,
  u32: Uint32Array,
  i32: Int32Array,
  f32: Float32Array,
  f64: Float64Array,
} as const;

/** The typed arrays of a block, by name. All machines that browsers run on are little-endian, as the block is. */
export const columnsOf = (block: Uint8Array, heads: readonly TypedArray[]): ReadonlyMap<string, Numbers> =>
  new Map(
    heads.map(({ name, type, start, length }) => [
      name,
      new TYPES[type](block.buffer as ArrayBuffer, block.byteOffset + start, length),
    ]),
  );

const NOTHING: Answered = {};

/** The texts of results, which are read block by block when they are first asked for. */
export class Answers {
  readonly #blocks: Blocks;
  readonly #chunk: number;
  readonly #number: number;
  readonly #read = new Map<number, readonly Answered[]>();
  readonly #reading = new Map<number, Promise<readonly Answered[]>>();

  constructor(blocks: Blocks, head: BundleHead) {
    this.#blocks = blocks;
    this.#chunk = head.chunk;
    this.#number = head.answers;
  }

  /** Whether the bundle holds no texts of results. */
  get none(): boolean {
    return this.#number === 0;
  }

  /** The texts of a result, or undefined while its block has not been read. */
  at(result: number): Answered | undefined {
    if (this.none) return NOTHING;
    return this.#read.get(Math.floor(result / this.#chunk))?.[result % this.#chunk];
  }

  /** Read the block of a result. */
  async get(result: number): Promise<Answered> {
    if (this.none) return NOTHING;
    const chunk = await this.#chunkAt(Math.floor(result / this.#chunk));
    const answered = chunk[result % this.#chunk];
    if (answered === undefined) throw new Error(`the page has no result ${result}`);
    return answered;
  }

  /** Read all blocks, one after the other; `step` is called after each with the number of results read. */
  async all(step: (results: number) => void = () => undefined): Promise<void> {
    let results = 0;
    for (let chunk = 0; chunk < this.#number; chunk++) {
      results += (await this.#chunkAt(chunk)).length;
      step(results);
    }
  }

  async #chunkAt(place: number): Promise<readonly Answered[]> {
    const waiting = this.#reading.get(place);
    if (waiting !== undefined) return waiting;
    const reading = json<readonly Answered[]>(this.#blocks, `answers/${place}`).then((chunk) => {
      this.#read.set(place, chunk);
      return chunk;
    });
    this.#reading.set(place, reading);
    return reading;
  }
}

export interface Bundle {
  readonly head: BundleHead;
  readonly tables: Tables;
  readonly columns: ReadonlyMap<string, Numbers>;
  readonly answers: Answers;
  readonly blocks: Blocks;
}

/** A table that is parsed when it is first looked at: most readers open few questions. */
const table = async <Name extends keyof Tables>(blocks: Blocks, name: Name): Promise<() => Tables[Name]> => {
  const bytes = await blocks(`tables/${name}`);
  let known: Tables[Name] | undefined;
  return () => (known ??= parsed(bytes) as Tables[Name]);
};

/** Read what explorer and items need; the head has been read before. */
export const readBundle = async (blocks: Blocks, head: BundleHead): Promise<Bundle> => {
  const [words, options, lists, images, block] = await Promise.all([
    table(blocks, "words"), table(blocks, "options"), table(blocks, "lists"), table(blocks, "images"), blocks("columns"),
  ]);
  const tables: Tables = {
    get words() { return words(); },
    get options() { return options(); },
    get lists() { return lists(); },
    get images() { return images(); },
  };
  return { head, tables, columns: columnsOf(block, head.columns), answers: new Answers(blocks, head), blocks };
};
